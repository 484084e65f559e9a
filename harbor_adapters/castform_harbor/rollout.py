"""Harbor trials as rollouts, by castform's own runner: from `benchmax.envs.harbor` to `run_trial` and back.

An infrastructure or verifier failure becomes a result without a reward, never a zero. What no
trial could do (a name that does not exist, a task that is not whole, no Docker) is raised.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmax.envs.harbor.bundled_agent import BundledHarborAgent
from benchmax.envs.harbor.configs import ArtifactConfig, HarborConfig
from benchmax.envs.harbor.reasons import (
    EXCEPTION_REASONS,
    GRADED_AGENT_FAILURES,
    find_failure,
    reason_of_metadata,
)
from benchmax.envs.harbor.trial import HarborTrial, HarborTrialResult, HarborTrialTemplate
from castform.errors import UsageError
from castform.harness.contract import Harness, HarnessError
from castform.sandbox.contract import Capabilities, ModelEndpoint, SandboxProvider
from castform.sandbox.errors import SandboxBuildError, SandboxError
from castform_harbor.output import CONFIG_FILE, LOCK_FILE, RESULT_FILE, read_json
from castform_harbor.reference_agents import REFERENCE_AGENTS, make_reference_agent
from castform_harbor.support import allows_fresh_verifier, find_unsupported
from castform_harbor.task import HarborTask, load_task
from castform_harbor.task_config import Artifact
from castform_harbor.trial import run_trial
from castform_harbor.trial_plan import check_trial
from castform_harbor.trial_types import GRADED, TrialOptions, TrialOutcome, TrialStatus

HONOURED: Mapping[str, frozenset[str]] = {
    "agent": frozenset({"name", "kwargs", "env", "override_timeout_sec", "max_timeout_sec"}),
    "environment": frozenset(
        {"type", "kwargs", "env", "override_cpus", "override_memory_mb", "override_storage_mb"}
    ),
    "verifier": frozenset({"override_timeout_sec", "env"}),
}
"""Fields of Harbor's configs that mean the same here. Others are refused rather than ignored."""

REASONS: Mapping[TrialStatus, str] = {
    "agent_timeout": "harness_timeout",
    "agent_nonzero": "harness_error",
    "context_exceeded": "context_exceeded",
    "output_exceeded": "output_exceeded",
    "max_turns": "max_turns_exceeded",
    "verifier_error": "verifier_error",
    "infra_error": "sandbox_error",
    "cancelled": "sandbox_error",
}
"""Why a rollout ended, by its trial's status. The three in the middle are no exceptions."""
AGENT_FAILURES: Mapping[TrialStatus, str] = {
    "agent_timeout": "AgentTimeoutError",
    "agent_nonzero": "NonZeroAgentExitCodeError",
}
TRIAL_FILES = (CONFIG_FILE, LOCK_FILE, RESULT_FILE)
EVERYTHING = Capabilities(
    isolated=True,
    cpus="enforced",
    memory="enforced",
    pids="enforced",
    disk="enforced",
    networks=frozenset({"none", "allowlist", "public"}),
    users=True,
    images=True,
)
"""More than any sandbox has: what a task lacks here, it lacks everywhere."""
_SHOWN = 5


class OwnTrialRunner:
    """Runs trials in the boxes of one event loop. A provider and a harness are made once and kept."""

    uses_process_environment = False

    def __init__(self) -> None:
        self._providers: dict[str, SandboxProvider] = {}
        self._harnesses: dict[str, Harness] = {}
        self._tasks: dict[Path, tuple[str, HarborTask]] = {}

    def check(self, template: HarborTrialTemplate, tasks: Sequence[tuple[str, Path]]) -> None:
        """UsageError: fields or names that mean nothing here, tasks that are not whole or ask for what no
        sandbox here has, and, under `verification="fresh"`, tasks that declare no artifacts."""
        check_template(template)
        self._harness(template)
        options = make_options(template)
        without, faults = [], []
        for name, folder in tasks:
            try:
                task = load_task(folder)
            except UsageError as error:
                faults.append(f"{name}: {error}")
                continue
            faults += [f"{name}: {problem}" for problem in find_unsupported(task, EVERYTHING)]
            if not _can_verify(task, options):
                without.append(name)
            self._tasks[folder] = (name, task)
        _refuse(faults, len(tasks))
        if without:
            raise UsageError(
                f"verification in a fresh box sees declared artifacts alone, and {len(without)} of {len(tasks)} "
                f"tasks declare none: {', '.join(without[:_SHOWN])}",
                hint="name the paths that the agent's work is in (artifacts, env.artifacts='[\"/app\"]'), or verify "
                "as the task says, within the agent's reach (verification='task', env.verifier=task)",
            )

    async def check_ready(self, template: HarborTrialTemplate) -> None:
        """MissingError: the sandboxes do not work here. UsageError: tasks that ask for what these do not have,
        or for variables that are not set on this machine."""
        provider = self._provider(template)
        capabilities, options = await provider.check(), make_options(template)
        faults = []
        for name, task in self._tasks.values():
            asked = override_resources(task, template)
            found = find_unsupported(asked, capabilities, options)
            faults += [f"{name}: {problem}" for problem in found]
            if found:
                continue
            try:
                check_trial(
                    asked, harness=self._harness(template), options=options, capabilities=capabilities
                )
            except UsageError as error:
                faults.append(f"{name}: {error}")
        _refuse(faults, len(self._tasks))

    async def run(self, trial: HarborTrial) -> HarborTrialResult:
        """Run one trial and say how it ended."""
        check_template(trial.template)
        task = await asyncio.to_thread(load_task, trial.task)
        return await run_rollout(
            trial,
            task=override_resources(task, trial.template),
            harness=self._harness(trial.template),
            provider=self._provider(trial.template),
        )

    async def aclose(self) -> None:
        """Close every box that is open."""
        providers, self._providers = list(self._providers.values()), {}
        for provider in providers:
            await provider.aclose()

    def _provider(self, template: HarborTrialTemplate) -> SandboxProvider:
        from castform.sandbox import load_provider

        environment = template.environment
        key = f"{environment.type} {sorted(environment.kwargs.items())!r}"
        if key not in self._providers:
            self._providers[key] = load_provider(str(environment.type), **environment.kwargs)
        return self._providers[key]

    def _harness(self, template: HarborTrialTemplate) -> Harness:
        agent = template.agent_config
        key = f"{agent.name} {sorted(agent.kwargs.items())!r}"
        if key not in self._harnesses:
            self._harnesses[key] = _load_agent(str(agent.name), agent.kwargs)
        return self._harnesses[key]


def make_runner() -> OwnTrialRunner:
    return OwnTrialRunner()


async def run_rollout(
    trial: HarborTrial, *, task: HarborTask, harness: Harness, provider: SandboxProvider
) -> HarborTrialResult:
    """Run one trial in a folder of its own and return its result.

    A rollout that is run again starts afresh: what its earlier trial wrote is removed.
    """
    await asyncio.to_thread(_remove_earlier, trial.trial_dir)
    asks_model = harness.name not in REFERENCE_AGENTS
    endpoint = ModelEndpoint(base_url=trial.base_url, api_key=trial.api_key, model=trial.model)
    try:
        outcome = await run_trial(
            task,
            harness=harness,
            provider=provider,
            endpoint=endpoint if asks_model else None,
            trials_dir=trial.template.trials_dir,
            trial_name=trial.rollout_id,
            options=await asyncio.to_thread(make_options, trial.template),
        )
    except (SandboxError, HarnessError) as error:
        return describe_failure(error, trial.trial_dir)
    return read_outcome(outcome)


def read_outcome(outcome: TrialOutcome) -> HarborTrialResult:
    """Return what a trial's outcome is to a rollout.

    Budget stops are no exceptions: the verdict on what was done until then counts.
    """
    agent = outcome.agent_result
    exception = AGENT_FAILURES.get(outcome.status)
    reported = reason_of_metadata(agent.metadata) if agent is not None else None
    reason = reported or REASONS.get(outcome.status)
    if outcome.status not in GRADED:
        exception = _read_exception(outcome.trial_dir) or "TrialError"
        reason = EXCEPTION_REASONS.get(exception, REASONS.get(outcome.status))
    return HarborTrialResult(
        rewards=outcome.rewards,
        exception_type=exception,
        exception_message=outcome.error or "",
        reason=reason,
        graded=outcome.status in AGENT_FAILURES,
        metadata=dict(agent.metadata) if agent is not None else {},
        trial_dir=outcome.trial_dir,
    )


def _read_exception(folder: Path) -> str | None:
    """Return the name under which result.json has what ended the trial: no step's graded failure did."""
    failure = find_failure(read_json(folder / RESULT_FILE) or {})
    name = None if failure is None else str(failure["exception_type"])
    return None if name in GRADED_AGENT_FAILURES else name


def describe_failure(error: Exception, trial_dir: Path) -> HarborTrialResult:
    """Return the result of a trial that could not be carried through."""
    if isinstance(error, HarnessError):
        reason, name = "harness_error", "AgentSetupError"
    else:
        reason = "sandbox_error"
        name = "SandboxBuildFailedError" if isinstance(error, SandboxBuildError) else type(error).__name__
    return HarborTrialResult(
        exception_type=name, exception_message=str(error), reason=reason, trial_dir=trial_dir
    )


def make_options(template: HarborTrialTemplate) -> TrialOptions:
    """Return the options of `run_trial` that a template amounts to. Reads the extra instructions."""
    agent, verifier = template.agent_config, template.verifier
    return TrialOptions(
        verifier=template.verification,
        network=template.network,
        timeout_multiplier=template.timeout_multiplier,
        agent_timeout_multiplier=template.agent_timeout_multiplier,
        verifier_timeout_multiplier=template.verifier_timeout_multiplier,
        agent_setup_timeout_multiplier=template.agent_setup_timeout_multiplier,
        build_timeout_multiplier=template.environment_build_timeout_multiplier,
        agent_timeout_seconds=agent.override_timeout_sec,
        max_agent_timeout_seconds=agent.max_timeout_sec,
        verifier_timeout_seconds=verifier.override_timeout_sec,
        agent_env=dict(agent.env),
        verifier_env=dict(verifier.env),
        extra_instructions=tuple(map(_read_instruction, template.extra_instruction_paths)),
        artifacts=tuple(map(_make_artifact, template.artifacts)),
    )


def override_resources(task: HarborTask, template: HarborTrialTemplate) -> HarborTask:
    """Return the task with the box that the template's `override_*` fields and `env` ask for."""
    asked = template.environment
    changes: dict[str, Any] = {
        name: value
        for name, value in (
            ("cpus", asked.override_cpus),
            ("memory_mb", asked.override_memory_mb),
            ("storage_mb", asked.override_storage_mb),
        )
        if value is not None
    }
    if asked.env:
        changes["env"] = {**task.config.environment.env, **asked.env}
    if not changes:
        return task
    config = task.config
    return replace(task, config=replace(config, environment=replace(config.environment, **changes)))


def check_template(template: HarborTrialTemplate) -> None:
    """UsageError for an agent, or a field of a config, that only the real harbor knows."""
    if isinstance(template.agent, BundledHarborAgent) or template.agent.import_path:
        raise UsageError(
            "an agent with an import_path is written for the real harbor",
            hint="leave `runner` out, or name a harness: `castform harbor run --agent terminus-lite`",
        )
    configs: dict[str, HarborConfig] = {
        "agent": template.agent,
        "environment": template.environment,
        "verifier": template.verifier,
    }
    foreign = [
        f"{name}.{field}"
        for name, config in configs.items()
        for field in sorted(config.model_dump(exclude_defaults=True).keys() - HONOURED[name])
    ]
    if foreign:
        raise UsageError(
            f"castform's runner does not honour {', '.join(foreign)}",
            hint="leave them out, or use the real harbor: runner='benchmax.envs.harbor.in_process:make_runner'",
        )


def _can_verify(task: HarborTask, options: TrialOptions) -> bool:
    return options.verifier == "task" or allows_fresh_verifier(task, options)


def _refuse(faults: Sequence[str], tasks: int) -> None:
    if faults:
        more = [f"and {len(faults) - _SHOWN} more"] if len(faults) > _SHOWN else []
        raise UsageError(
            "\n  ".join([f"not all of the tasks ({tasks}) can be run here:", *faults[:_SHOWN], *more]),
            hint="another sandbox may have it; `castform sandbox check` shows what each one holds to",
        )


def _load_agent(name: str, kwargs: Mapping[str, Any]) -> Harness:
    if name in REFERENCE_AGENTS:
        return make_reference_agent(name)
    from castform.harness.load import load_harness

    return load_harness(name, **kwargs)


def _make_artifact(item: str | ArtifactConfig) -> Artifact:
    if isinstance(item, str):
        return Artifact(source=item)
    return Artifact(
        source=item.source,
        destination=item.destination,
        exclude=tuple(item.exclude),
        **({"service": item.service} if item.service else {}),
    )


def _read_instruction(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the extra instruction {path} cannot be read: {error}") from error


def _remove_earlier(folder: Path) -> None:
    if not folder.exists():
        return
    if not folder.is_dir() or not (_holds_trial(folder) or _holds_nothing(folder)):
        raise UsageError(
            f"{folder} is in the way: a trial belongs there, and what it holds is none",
            hint="choose another trials_dir",
        )
    shutil.rmtree(folder)


def _holds_trial(folder: Path) -> bool:
    return any((folder / name).is_file() for name in TRIAL_FILES)


def _holds_nothing(folder: Path) -> bool:
    """Say whether there are empty folders alone: a trial that was killed as it began."""
    return all(path.is_dir() for path in folder.rglob("*"))
