"""Why a trial ended, in the vocabulary of rollouts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from benchmax.envs.termination import BUDGET_STOPS, FINISHED

EXCEPTION_REASONS: Final[Mapping[str, str]] = {
    "AgentTimeoutError": "harness_timeout",
    "NonZeroAgentExitCodeError": "harness_error",
    "ContextLengthExceededError": "context_exceeded",
    "ContextWindowExceededError": "context_exceeded",
    "OutputLengthExceededError": "output_exceeded",
    "SandboxBuildFailedError": "sandbox_error",
    "EnvironmentStartTimeoutError": "sandbox_error",
    "VerifierTimeoutError": "verifier_timeout",
    "VerifierOutputParseError": "verifier_error",
    "RewardFileNotFoundError": "verifier_error",
    "RewardFileEmptyError": "verifier_error",
    "AddTestsDirError": "verifier_error",
    "DownloadVerifierDirError": "verifier_error",
}
"""Harbor's exception names. Every other one is a harness_error."""

GRADED_AGENT_FAILURES: Final = frozenset(
    {
        "AgentTimeoutError",
        "NonZeroAgentExitCodeError",
        "ContextLengthExceededError",
        "ContextWindowExceededError",
        "OutputLengthExceededError",
        "MaxTurnsExceededError",
    }
)
"""What an agent brings on itself: the verifier's word on its work still holds."""

KEPT_REASONS: Final = frozenset({"harness_timeout", "harness_error"})
"""Reasons that graded agent failures have beside the budget stops."""

_LEGACY_METADATA = "harvey_metrics"


def find_failure(document: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the exception that a Harbor result document tells of, as Harbor wrote it; None: there is none.

    One of a step counts like the trial's own. What an agent brings on itself gives way to any other:
    the verdict may hold beside it, and does not beside the other.
    """
    found = [document.get("exception_info")]
    steps = document.get("step_results")
    found += [step.get("exception_info") for step in steps or () if isinstance(step, Mapping)]
    failures = [item for item in found if isinstance(item, Mapping) and item.get("exception_type")]
    graver = (item for item in failures if item["exception_type"] not in GRADED_AGENT_FAILURES)
    return next(graver, failures[0] if failures else None)


def reason_of_exception(exception_type: str) -> str:
    """Return the termination reason of an exception's type name; a module before it is let go."""
    return EXCEPTION_REASONS.get(exception_type.rpartition(".")[2], "harness_error")


def reason_of_metadata(metadata: Mapping[str, object] | None) -> str | None:
    """Return the budget stop that an agent reports in its metadata, or None."""
    for holder in (metadata, (metadata or {}).get(_LEGACY_METADATA)):
        reason = holder.get("termination_reason") if isinstance(holder, Mapping) else None
        if isinstance(reason, str) and reason in BUDGET_STOPS:
            return reason
    return None


def reason_of_trial(exception_type: str | None, metadata: Mapping[str, object] | None) -> str:
    """Return why a trial ended: what the agent reports, else its exception, else `finished`."""
    reported = reason_of_metadata(metadata)
    if reported is not None:
        return reported
    return FINISHED if exception_type is None else reason_of_exception(exception_type)
