"""Harbor tasks as an environment: every rollout is a trial."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from benchmax.auth import ModelRequestContext, request_headers
from benchmax.envs.dataset import Dataset
from benchmax.envs.environment import Environment
from benchmax.envs.harbor.bundled_agent import BundledHarborAgent
from benchmax.envs.harbor.configs import DatasetConfig, take_config
from benchmax.envs.harbor.credentials import SandboxCredentials, sandbox_credentials_scope
from benchmax.envs.harbor.dataset import HarborDataset, check_eval_ratio
from benchmax.envs.harbor.diagnostics import find_model_controls
from benchmax.envs.harbor.reasons import GRADED_AGENT_FAILURES, KEPT_REASONS, reason_of_trial
from benchmax.envs.harbor.rewardkit import add_partial_credit
from benchmax.envs.harbor.runners import CREDENTIALED, choose_runner, load_runner
from benchmax.envs.harbor.trial import (
    HarborTrial,
    HarborTrialResult,
    HarborTrialTemplate,
    TrialRunner,
    copy_template,
)
from benchmax.envs.loop_local import LoopLocal
from benchmax.envs.shared_types import (
    DatasetSplit,
    RolloutAttempt,
    RolloutFailure,
    RolloutOutcome,
    RolloutRequest,
    ValidationDiagnostic,
)
from benchmax.envs.termination import FINISHED, SCORABLE, describe_error

KeepTrials = Literal["all", "failed", "none"]
ROLLOUT_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True, kw_only=True)
class HarborAttempt(RolloutAttempt):
    """One trial, as a rollout."""

    exception_type: str | None = None
    """Of what went wrong; set beside rewards when a graded failure of the agent keeps them."""
    metadata: Mapping[str, Any] = field(default_factory=dict)  # Any: the agent's own JSON
    trial_dir: Path | None = None


class HarborEnv(Environment[Mapping[str, Any], HarborAttempt]):
    """Tasks in Harbor's format, worked on by an agent in a box, judged by their own verifiers."""

    def __init__(
        self,
        *,
        dataset: DatasetConfig,
        trial: HarborTrialTemplate,
        sandbox_credentials: SandboxCredentials | None = None,
        eval_dataset: DatasetConfig | None = None,
        eval_ratio: float = 0.1,
        max_concurrent_trials: int | None = None,
        requires_public_model_endpoint: bool = True,
        keep_graded_failures: bool = False,
        keep_trials: KeepTrials = "all",
        trial_timeout_seconds: float | None = None,
        runner: str | None = None,
    ) -> None:
        """Check the set-up; nothing is started.

        `keep_graded_failures`: an agent that ran out of time, of context or ended with an error keeps
        the reward that the verifier gave its work; otherwise any exception means no reward.
        `keep_trials`: which trial folders stay on disk. `trial_timeout_seconds`: for a whole trial, boxes
        and verification included; it is best below the run's own limit for a rollout. `runner`: `module:function` that makes a
        TrialRunner; unset, castform's own where it can run the agent, else the real harbor.
        """
        self.dataset = take_config(DatasetConfig, dataset, "dataset")
        if not isinstance(trial, HarborTrialTemplate):
            raise TypeError(f"trial must be a HarborTrialTemplate, not {type(trial).__name__}")
        _check_template(trial)
        _check_credentials(trial, sandbox_credentials)
        self.trial = copy_template(trial)
        self.sandbox_credentials = sandbox_credentials
        self.eval_dataset = (
            None if eval_dataset is None else take_config(DatasetConfig, eval_dataset, "eval_dataset")
        )
        self.eval_ratio = check_eval_ratio(eval_ratio)
        self.max_concurrent_rollouts = _check_slots(max_concurrent_trials)
        if not isinstance(requires_public_model_endpoint, bool):
            raise TypeError("requires_public_model_endpoint must be true or false")
        self._requires_public_model_endpoint = requires_public_model_endpoint
        if keep_trials not in ("all", "failed", "none"):
            raise ValueError(f"keep_trials must be 'all', 'failed' or 'none', not {keep_trials!r}")
        self.keep_trials = keep_trials
        if trial_timeout_seconds is not None and not trial_timeout_seconds > 0:
            raise ValueError(f"trial_timeout_seconds must be above 0, not {trial_timeout_seconds!r}")
        self.trial_timeout_seconds = trial_timeout_seconds
        self.keep_graded_failures = keep_graded_failures
        if keep_graded_failures:
            self.scorable_termination_reasons = SCORABLE | KEPT_REASONS
        self.runner = runner or choose_runner(trial)
        self._runners: LoopLocal[TrialRunner] = LoopLocal(partial(load_runner, self.runner))

    @property
    def requires_public_model_endpoint(self) -> bool:
        """Whether trials run on another machine, as the author said."""
        return self._requires_public_model_endpoint

    async def create_dataset(
        self, split: DatasetSplit, base_dir: Path, *, max_examples: int | None = None
    ) -> Dataset[Mapping[str, Any]]:
        """Return the tasks of a split: the eval dataset's own, or the lowest ids of the one dataset."""
        if self.eval_dataset is not None:
            config = self.dataset if split == "train" else self.eval_dataset
            found = await HarborDataset.create(config, base_dir=base_dir, max_examples=max_examples)
        else:
            found = await HarborDataset.create(
                self.dataset,
                base_dir=base_dir,
                max_examples=max_examples,
                split=split,
                eval_ratio=self.eval_ratio,
            )
        tasks = [(str(example.payload["name"]), Path(example.payload["path"])) for example in found]
        self._runners.get().check(self.trial, tasks)
        return found

    async def check_ready(self) -> None:
        """Ask the runner whether trials can run here."""
        await self._runners.get().check_ready(self.trial)

    async def run_group(
        self, requests: Sequence[RolloutRequest[Mapping[str, Any]]]
    ) -> dict[str, RolloutOutcome]:
        """Run one trial a request; sandbox credentials stand in `os.environ` meanwhile, for runners that need it."""
        scoped = self.sandbox_credentials if self._runners.get().uses_process_environment else None
        async with sandbox_credentials_scope(scoped):
            return await super().run_group(requests)

    async def run_rollout(self, request: RolloutRequest[Mapping[str, Any]]) -> HarborAttempt:
        """Run one trial and say how it ended.

        ValueError: an id that cannot name a folder, or auth that is no bearer.
        """
        trial = await self.make_trial(request)
        try:
            async with asyncio.timeout(self.trial_timeout_seconds) as limit:
                result = await self._runners.get().run(trial)
        except TimeoutError as error:
            self._clean(trial, None)
            if not limit.expired():
                raise
            message = f"the trial took longer than {self.trial_timeout_seconds:g} s"
            raise RolloutFailure("harness_timeout", message) from error
        except BaseException:
            self._clean(trial, None)
            raise
        try:
            return self.settle(request.rollout_id, result)
        finally:
            self._clean(trial, result)

    async def make_trial(self, request: RolloutRequest[Mapping[str, Any]]) -> HarborTrial:
        """Return the trial of a request, with configs that no other trial shares."""
        if not ROLLOUT_ID.fullmatch(request.rollout_id):
            raise ValueError(
                f"rollout id {request.rollout_id!r} cannot name a trial's folder: letters, digits, '.', '_' and '-'"
            )
        credentials = self.sandbox_credentials
        template = replace(self.trial, trials_dir=self.trial.trials_dir.absolute())
        return HarborTrial(
            rollout_id=request.rollout_id,
            task=Path(request.example.payload["path"]),
            template=template,
            base_url=request.base_url,
            api_key=await _bearer(request),
            model=request.model,
            host_environment={} if credentials is None else credentials.host_environment(),
        )

    def settle(self, rollout_id: str, result: HarborTrialResult) -> HarborAttempt:
        """Return the attempt that a trial's result amounts to."""
        failed = result.exception_type is not None
        reason = result.reason or reason_of_trial(result.exception_type, result.metadata)
        name = (result.exception_type or "").rpartition(".")[2]
        graded = failed and (result.graded or name in GRADED_AGENT_FAILURES)
        keeps = self.keep_graded_failures and graded and reason in self.scorable_termination_reasons
        rewards: Mapping[str, Any] = result.rewards or {}
        error = f"{name}: {result.exception_message}".rstrip(": ") if failed else None
        if failed and not keeps:
            rewards = {}
        elif not rewards and reason == FINISHED:
            reason, error = "verifier_error", "the verifier ended without a reward"
        elif rewards and result.trial_dir is not None:
            rewards = add_partial_credit(rewards, result.trial_dir)
        return HarborAttempt(
            rollout_id=rollout_id,
            termination_reason=reason,
            rewards=rewards,
            error=error,
            exception_type=result.exception_type,
            metadata=result.metadata,
            trial_dir=result.trial_dir,
        )

    def validation_diagnostics(self) -> Sequence[ValidationDiagnostic]:
        """Return what the agent's options take from the trainer."""
        return find_model_controls(self.trial.agent_config.kwargs, "trial.agent.kwargs")

    def gold(self, example: Any) -> None:
        """None: a task's solution is a program, which `castform harbor run --agent oracle` runs."""

    async def aclose(self) -> None:
        """Close the boxes that the running event loop's runner holds."""
        runner = self._runners.pop()
        if runner is not None:
            await runner.aclose()

    def _clean(self, trial: HarborTrial, result: HarborTrialResult | None) -> None:
        """Remove the trial's folder where it is not to stay. None: the trial came to no result."""
        whole = result is not None and result.exception_type is None and bool(result.rewards)
        if self.keep_trials == "none" or (self.keep_trials == "failed" and whole):
            shutil.rmtree(trial.trial_dir, ignore_errors=True)


def _check_template(template: HarborTrialTemplate) -> None:
    agent = template.agent_config
    if agent.model_name is not None:
        raise ValueError("agent.model_name is the rollout's to say; leave it out")
    for name in ("n_concurrent", "concurrency_group"):
        if getattr(agent, name) is not None:
            raise ValueError(f"agent.{name} belongs to Harbor's jobs; use max_concurrent_trials")
    if template.verifier.disable:
        raise ValueError("the verifier is disabled, and without it there is no reward")
    if isinstance(template.agent, BundledHarborAgent) and template.agent.config.name is not None:
        raise ValueError("a bundled agent has no name")


def _check_credentials(template: HarborTrialTemplate, credentials: object) -> None:
    if credentials is not None and not isinstance(credentials, SandboxCredentials):
        raise TypeError(f"sandbox_credentials must be SandboxCredentials, not {type(credentials).__name__}")
    kind = template.environment.type
    provider = credentials.provider if credentials is not None else None
    if kind in CREDENTIALED and provider != kind:
        raise ValueError(
            f"environment type {kind!r} needs sandbox_credentials of {kind}, not of {provider or 'nobody'}"
        )
    if provider in CREDENTIALED and kind != provider:
        raise ValueError(f"sandbox_credentials are of {provider}, but the environment type is {kind!r}")


def _check_slots(value: object) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"max_concurrent_trials must be a positive integer or None, not {value!r}")
    return value


async def _bearer(request: RolloutRequest[Any]) -> str:
    context = ModelRequestContext(
        base_url=request.base_url, model=request.model, rollout_id=request.rollout_id
    )
    try:
        headers = await request_headers(request.model_auth, context)
    except Exception as error:  # the host's provider; a rollout without a key is one that failed
        raise RolloutFailure("model_error", describe_error(error)) from error
    value = next((text for name, text in headers.items() if name.lower() == "authorization"), "")
    scheme, _, token = value.partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise ValueError("trials need model auth that gives `Authorization: Bearer …`")
    return token.strip()
