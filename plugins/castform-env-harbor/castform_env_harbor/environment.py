"""Tasks and a harness, run by castform's own runner."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmax.envs import Dataset, DatasetSplit
from benchmax.envs.harbor import (
    AgentConfig,
    DatasetConfig,
    EnvironmentConfig,
    HarborEnv,
    HarborTrialTemplate,
    VerifierConfig,
)
from castform.sandbox.errors import UsageError
from castform_env_harbor.config import HarborConfig

RUNNER = "castform_harbor.rollout:make_runner"
HARBOR_SETUP_SECONDS = 360.0
"""What Harbor gives an agent's setup, which a multiplier makes `setup_timeout_seconds`."""


class HarborTasks(HarborEnv):
    """Harbor tasks whose copies lie below CASTFORM_HOME, wherever the tasks come from."""

    def __init__(self, config: HarborConfig) -> None:
        self.home = harbor_home()
        super().__init__(
            dataset=make_dataset_config(config.tasks, config),
            eval_dataset=None
            if config.eval_tasks is None
            else make_dataset_config(config.eval_tasks, config),
            eval_ratio=config.eval_ratio,
            trial=make_template(config, self.home, run=secrets.token_hex(6)),
            max_concurrent_trials=config.max_concurrent_trials,
            requires_public_model_endpoint=False,
            keep_graded_failures=config.keep_graded_failures,
            keep_trials=config.keep_trials,
            trial_timeout_seconds=config.trial_timeout_seconds,
            runner=RUNNER,
        )

    async def create_dataset(
        self, split: DatasetSplit, base_dir: Path, *, max_examples: int | None = None
    ) -> Dataset[Mapping[str, Any]]:
        """Return the tasks of a split, copied below CASTFORM_HOME so that they stay as they are."""
        return await super().create_dataset(split, self.home, max_examples=max_examples)


def make_harbor(config: HarborConfig) -> HarborTasks:
    """Make the environment; tasks are looked for when its dataset is made."""
    return HarborTasks(config)


def harbor_home() -> Path:
    """Return the folder for task copies and trials."""
    home = os.environ.get("CASTFORM_HOME") or "~/.castform"
    return Path(home).expanduser().absolute() / "harbor"


def make_dataset_config(source: str, config: HarborConfig) -> DatasetConfig:
    """Return where tasks come from. UsageError: a registry with several datasets and none named."""
    path = Path(source).expanduser().absolute()
    patterns: dict[str, Any] = {
        "task_names": config.only or None,
        "exclude_task_names": config.without or None,
    }
    if path.suffix != ".json":
        if config.dataset is not None:
            raise UsageError(
                f"env.dataset is {config.dataset!r}, which is for a registry.json, and env.tasks is {source!r}",
                hint="leave env.dataset out, or name the registry.json as env.tasks",
            )
        return DatasetConfig(path=path, **patterns)
    name, _, version = (config.dataset or find_only_dataset(path)).partition("@")
    return DatasetConfig(name=name, version=version or None, registry_path=path, **patterns)


def find_only_dataset(registry: Path) -> str:
    """Return the name of a registry's one dataset. UsageError: it cannot be read, or has others."""
    try:
        rows = json.loads(registry.read_text(encoding="utf-8"))
        names = sorted({str(row["name"]) for row in rows})
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UsageError(f"{registry} is no registry of Harbor datasets: {error}") from error
    if len(names) != 1:
        raise UsageError(
            f"{registry} has the datasets {', '.join(names) or 'none'}",
            hint="set env.dataset to one of them",
        )
    return names[0]


def make_template(config: HarborConfig, home: Path, *, run: str) -> HarborTrialTemplate:
    """Return what all trials have in common. `run`: the folder of this environment's trials, whose ids
    other runs have too."""
    trials = Path(config.trials_dir).expanduser().absolute() if config.trials_dir else home / "trials"
    harness = (
        str(Path(config.harness).expanduser().absolute())
        if config.harness.endswith(".toml")
        else config.harness
    )
    return HarborTrialTemplate(
        agent=AgentConfig(
            name=harness, kwargs=config.harness_args, max_timeout_sec=config.agent_timeout_seconds
        ),
        environment=EnvironmentConfig(type=config.sandbox, kwargs=config.sandbox_args),
        verifier=VerifierConfig(override_timeout_sec=config.verifier_timeout_seconds),
        trials_dir=trials / run,
        agent_setup_timeout_multiplier=config.setup_timeout_seconds / HARBOR_SETUP_SECONDS,
        artifacts=tuple(config.artifacts),
        verification=config.verifier,
        network=config.network,
    )
