"""What is noted while a trial runs, and how a failure is named in Harbor's words."""

from __future__ import annotations

import asyncio
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from castform.harness.contract import HarnessResult, HarnessStatus
from castform.sandbox.errors import SandboxBuildError, SandboxStartError
from castform_harbor.errors import VerifierError, VerifierTimeoutError
from castform_harbor.output import now, stamp
from castform_harbor.rewards import RewardError, RewardMissingError
from castform_harbor.task_config import RewardStrategy
from castform_harbor.trial_types import GRADED, StepOutcome, TrialStatus, UsedVerifier

STATUS_OF: Mapping[HarnessStatus, TrialStatus] = {
    "finished": "ok",
    "timeout": "agent_timeout",
    "nonzero_exit": "agent_nonzero",
    "context_exceeded": "context_exceeded",
    "output_exceeded": "output_exceeded",
    "max_turns": "max_turns",
}
AGENT_EXCEPTIONS: Mapping[TrialStatus, str] = {
    "agent_timeout": "AgentTimeoutError",
    "agent_nonzero": "NonZeroAgentExitCodeError",
    "context_exceeded": "ContextWindowExceededError",
    "output_exceeded": "OutputLengthExceededError",
}
"""By status, the name under which Harbor keeps the reward. `max_turns` is no exception there."""


@dataclass(slots=True)
class Span:
    """When a phase began and ended."""

    started: datetime | None = None
    finished: datetime | None = None
    seconds: float = 0.0
    """How long it took, whatever the clock was set to meanwhile; 0 until it has ended."""

    def as_dict(self) -> dict[str, str | None] | None:
        if self.started is None:
            return None
        return {"started_at": stamp(self.started), "finished_at": stamp(self.finished)}


@contextmanager
def timed(span: Span) -> Iterator[None]:
    span.started = now()
    began = time.monotonic()
    try:
        yield
    finally:
        span.finished = now()
        span.seconds = time.monotonic() - began


@dataclass(slots=True)
class Record:
    """One step, or what comes before the first."""

    name: str | None = None
    status: TrialStatus = "ok"
    error: str | None = None
    exception: dict[str, Any] | None = None  # Any: JSON, Harbor's ExceptionInfo
    rewards: Mapping[str, float] | None = None
    verifier: UsedVerifier | None = None
    agent_result: HarnessResult | None = None
    test_exit_code: int | None = None
    agent_span: Span = field(default_factory=Span)
    verifier_span: Span = field(default_factory=Span)

    def note_agent(self, status: TrialStatus, message: str) -> None:
        """Note how the agent ended, where it did not end well by itself."""
        self.status = status
        self.error = message
        name = AGENT_EXCEPTIONS.get(status)
        if name is not None:
            self.exception = _describe(name, message, "")

    def fail(self, error: BaseException) -> None:
        """Note what ends the step without a reward. The agent's own ending stays in the text."""
        self.rewards = None
        message = f"{type(error).__name__}: {error}" if not str(error) else str(error)
        hint = getattr(error, "hint", None)
        if hint:
            message += f"\n{hint}" if "\n" in message else f" ({hint})"
        self.error = message if self.error is None else f"{message} (the agent before: {self.error})"
        self.status = classify(error)
        trace = "".join(traceback.format_exception(error))
        self.exception = _describe(name_exception(error), self.error, trace)

    def as_outcome(self) -> StepOutcome:
        return StepOutcome(
            name=self.name,
            status=self.status,
            error=self.error,
            rewards=self.rewards,
            verifier=self.verifier,
            agent_result=self.agent_result,
            test_exit_code=self.test_exit_code,
        )


def classify(error: BaseException) -> TrialStatus:
    """Say whose failure an exception is: never the agent's, whose endings are no exceptions."""
    if isinstance(error, asyncio.CancelledError | KeyboardInterrupt):
        return "cancelled"
    if isinstance(error, RewardError | VerifierError):
        return "verifier_error"
    return "infra_error"


def name_exception(error: BaseException) -> str:
    """Return the name under which Harbor's own error policy drops what this error ended."""
    names: list[tuple[type[BaseException], str]] = [
        (RewardMissingError, "RewardFileNotFoundError"),
        (RewardError, "VerifierOutputParseError"),
        (VerifierTimeoutError, "VerifierTimeoutError"),
        (SandboxBuildError, "SandboxBuildFailedError"),
        (SandboxStartError, "EnvironmentStartTimeoutError"),
        (asyncio.CancelledError, "CancelledError"),
    ]
    return next((name for kind, name in names if isinstance(error, kind)), type(error).__name__)


def combine_rewards(records: Sequence[Record], strategy: RewardStrategy | None) -> dict[str, float] | None:
    """Return a task's rewards from its steps': the mean of each, a missing one as 0, or the last step's.

    None where a step failed for no fault of the agent's: what the others gave is no measure of it.
    """
    if any(record.status not in GRADED for record in records):
        return None
    found = [record.rewards for record in records if record.rewards is not None]
    if not found:
        return None
    if len(records) == 1:
        return dict(found[0])
    if strategy == "final":
        last = records[-1].rewards
        return None if last is None else dict(last)
    names = dict.fromkeys(name for rewards in found for name in rewards)
    return {name: sum(rewards.get(name, 0.0) for rewards in found) / len(found) for name in names}


def choose_failure(records: Sequence[Record]) -> Record | None:
    """Return the record that says how the trial ended: what left no reward, else the first that was not ok."""
    for record in records:
        if record.status not in GRADED:
            return record
    return next((record for record in records if record.status != "ok"), None)


def describe_ending(result: HarnessResult, limit: float | None) -> str:
    """Say how an agent ended that did not end well by itself. `limit`: its seconds."""
    if result.status == "timeout":
        return "the agent ran out of time" + (f" ({limit:g} s)" if limit is not None else "")
    if result.status == "nonzero_exit":
        return f"the agent ended with exit code {result.exit_code}"
    return f"the agent ended: {result.status.replace('_', ' ')}"


def _describe(name: str, message: str, trace: str) -> dict[str, Any]:
    return {
        "exception_type": name,
        "exception_message": message,
        "exception_traceback": trace,
        "occurred_at": stamp(now()),
    }
