"""Trials by the real harbor, imported in this process."""

from __future__ import annotations

import asyncio
import importlib
import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmax.envs.harbor.bundled_agent import BundledHarborAgent
from benchmax.envs.harbor.reasons import find_failure
from benchmax.envs.harbor.trial import HarborTrial, HarborTrialResult, HarborTrialTemplate

INSTALL_HINT = (
    "this agent or environment needs the real harbor in this Python (3.12 or newer): `pip install harbor`; "
    "or name an agent that castform runs itself, in a docker, bubblewrap or process environment"
)


class InProcessRunner:
    """Runs `harbor.trial.trial.Trial`."""

    uses_process_environment = True

    def check(self, template: HarborTrialTemplate, tasks: Sequence[tuple[str, Path]]) -> None:
        """ValueError: harbor is not installed here, or something is wanted that it does not do."""
        _import_harbor()
        if template.verification != "task" or template.network != "task":
            raise ValueError(
                "verification='fresh' and network='none' are castform's own; the real harbor has neither"
            )

    async def check_ready(self, template: HarborTrialTemplate) -> None:
        """Nothing is looked at: Harbor's own environments say what they lack when a trial starts."""

    async def run(self, trial: HarborTrial) -> HarborTrialResult:
        """Run one trial. ValueError when harbor is not installed here; what a trial raises is its result."""
        config_module, trial_class = _import_harbor()
        config = _make_config(config_module, trial)
        try:
            made = trial_class.create(config) if hasattr(trial_class, "create") else trial_class(config)
            running = await made if inspect.isawaitable(made) else made
            result = await running.run()
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever Harbor, its agent or its environment raises
            return HarborTrialResult(
                exception_type=type(error).__name__, exception_message=str(error), trial_dir=trial.trial_dir
            )
        return read_trial_result(result.model_dump(mode="json"), trial)

    async def aclose(self) -> None:
        """Nothing is held."""


def make_runner() -> InProcessRunner:
    return InProcessRunner()


def read_trial_result(document: Mapping[str, Any], trial: HarborTrial) -> HarborTrialResult:
    """Return what a Harbor result document says."""
    failure = find_failure(document)
    verdict = document.get("verifier_result") or {}
    agent = document.get("agent_result") or {}
    return HarborTrialResult(
        rewards=verdict.get("rewards") or None,
        exception_type=str(failure["exception_type"]) if failure else None,
        exception_message=str(failure.get("exception_message") or "") if failure else "",
        metadata=agent.get("metadata") or {},
        trial_dir=trial.trial_dir,
    )


def describe_trial(trial: HarborTrial) -> dict[str, Any]:
    """Return Harbor's trial config as plain values, with the agent pointed at the rollout's endpoint."""
    template = trial.template
    base = template.agent.load() if isinstance(template.agent, BundledHarborAgent) else template.agent
    return {
        "task": {"path": str(trial.task)},
        "trial_name": trial.rollout_id,
        "trials_dir": str(template.trials_dir),
        "timeout_multiplier": template.timeout_multiplier,
        "agent_timeout_multiplier": template.agent_timeout_multiplier,
        "verifier_timeout_multiplier": template.verifier_timeout_multiplier,
        "agent_setup_timeout_multiplier": template.agent_setup_timeout_multiplier,
        "environment_build_timeout_multiplier": template.environment_build_timeout_multiplier,
        "agent": _set_fields(trial.harbor_agent(base)),
        "environment": _set_fields(template.environment),
        "verifier": _set_fields(template.verifier),
        "artifacts": [item if isinstance(item, str) else _set_fields(item) for item in template.artifacts],
        "extra_instruction_paths": [str(path) for path in template.extra_instruction_paths],
    }


def _set_fields(config: Any) -> dict[str, Any]:
    """Return what differs from the defaults: an older Harbor need not know the rest."""
    return dict(config.model_dump(mode="json", exclude_defaults=True))


def _import_harbor() -> tuple[Any, Any]:  # Any: a package that may not be installed
    try:
        return (
            importlib.import_module("harbor.models.trial.config"),
            importlib.import_module("harbor.trial.trial").Trial,
        )
    except ImportError as error:
        raise ValueError(INSTALL_HINT) from error


def _make_config(module: Any, trial: HarborTrial) -> Any:
    return module.TrialConfig.model_validate(describe_trial(trial))
