"""One trial: what is asked of a runner, and what it answers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Protocol

from benchmax.envs.harbor.bundled_agent import BundledHarborAgent
from benchmax.envs.harbor.configs import (
    AgentConfig,
    ArtifactConfig,
    EnvironmentConfig,
    VerifierConfig,
    take_config,
)

MODAL_DEFAULTS: Mapping[str, object] = {
    "app_name": "harbor-benchmax",
    "sandbox_timeout_secs": 10_800,
    "sandbox_idle_timeout_secs": 1_800,
}
Verification = Literal["task", "fresh"]
Network = Literal["task", "none"]
_MULTIPLIERS = (
    "timeout_multiplier",
    "agent_timeout_multiplier",
    "verifier_timeout_multiplier",
    "agent_setup_timeout_multiplier",
    "environment_build_timeout_multiplier",
)


@dataclass(frozen=True)
class HarborTrialTemplate:
    """What all trials of an environment have in common. Harbor's own config types are taken as well."""

    agent: AgentConfig | BundledHarborAgent
    environment: EnvironmentConfig = field(default_factory=EnvironmentConfig)
    verifier: VerifierConfig = field(default_factory=VerifierConfig)
    trials_dir: Path = Path("trials")
    """Each trial gets a folder in it, named by its rollout."""
    timeout_multiplier: float = 1.0
    agent_timeout_multiplier: float | None = None
    verifier_timeout_multiplier: float | None = None
    agent_setup_timeout_multiplier: float | None = None
    environment_build_timeout_multiplier: float | None = None
    artifacts: tuple[str | ArtifactConfig, ...] = ()
    extra_instruction_paths: tuple[Path, ...] = ()
    """Files whose text is put after every instruction."""
    verification: Verification = "task"
    """`fresh`: tests that the task would run in the agent's own box run in a new one, with the declared
    artifacts alone copied in. Only castform's runner does that."""
    network: Network = "task"
    """`none`: no phase reaches more than the model, whatever a task says. Only castform's runner does that."""

    def __post_init__(self) -> None:
        put = object.__setattr__
        if not isinstance(self.agent, BundledHarborAgent):
            put(self, "agent", take_config(AgentConfig, self.agent, "agent"))
        put(
            self,
            "environment",
            _with_modal_defaults(take_config(EnvironmentConfig, self.environment, "environment")),
        )
        put(self, "verifier", take_config(VerifierConfig, self.verifier, "verifier"))
        put(self, "trials_dir", Path(self.trials_dir))
        put(self, "artifacts", tuple(map(_take_artifact, _as_tuple("artifacts", self.artifacts))))
        paths = _as_tuple("extra_instruction_paths", self.extra_instruction_paths)
        put(self, "extra_instruction_paths", tuple(map(Path, paths)))
        for name, known in (("verification", ("task", "fresh")), ("network", ("task", "none"))):
            if getattr(self, name) not in known:
                raise ValueError(f"{name} must be {' or '.join(known)}, not {getattr(self, name)!r}")
        for name in _MULTIPLIERS:
            value = getattr(self, name)
            if value is not None or name == "timeout_multiplier":
                _check_multiplier(name, value)

    @property
    def agent_config(self) -> AgentConfig:
        """The agent's config, of a bundled one too."""
        return self.agent.config if isinstance(self.agent, BundledHarborAgent) else self.agent


@dataclass(frozen=True, kw_only=True)
class HarborTrial:
    """One trial to run. Its configs are copies of its own."""

    rollout_id: str
    """Also the name of its folder."""
    task: Path
    """The task's folder."""
    template: HarborTrialTemplate
    base_url: str
    api_key: str = field(repr=False)
    model: str
    """As the endpoint knows it."""
    host_environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Credentials of the sandbox service, for a runner that starts a process of its own."""

    @property
    def trial_dir(self) -> Path:
        return self.template.trials_dir / self.rollout_id

    def harbor_agent(self, config: AgentConfig | None = None) -> AgentConfig:
        """Return the agent's config as the real harbor needs it: with the model, its URL and its key."""
        config = config or self.template.agent_config
        model = self.model if self.model.startswith("openai/") else f"openai/{self.model}"
        endpoint = {
            "OPENAI_API_KEY": self.api_key,
            "OPENAI_BASE_URL": self.base_url,
            "OPENAI_API_BASE": self.base_url,
        }
        return config.model_copy(update={"model_name": model, "env": {**config.env, **endpoint}}, deep=True)


@dataclass(frozen=True, kw_only=True)
class HarborTrialResult:
    """How a trial ended."""

    rewards: Mapping[str, Any] | None = None
    """Any: as the verifier gave them, checked where they become rewards. None: there is no verdict."""
    exception_type: str | None = None
    """A type's name, Harbor's own where it has one; None: nothing went wrong."""
    exception_message: str = ""
    reason: str | None = None
    """A termination reason that the runner knows better than the exception's name tells; None: by the name."""
    graded: bool = False
    """The failure is the agent's own and the verifier's word on its work holds."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Of the agent. Any: JSON of its own making."""
    trial_dir: Path | None = None


class TrialRunner(Protocol):
    """Runs trials: our own runner, or the real harbor. A trial that fails is a result, not an exception."""

    uses_process_environment: bool
    """Whether sandbox credentials have to stand in `os.environ` of this process."""

    def check(self, template: HarborTrialTemplate, tasks: Sequence[tuple[str, Path]]) -> None:
        """Raise ValueError, or an error of the runner's own, for what no trial of these tasks could do.

        `tasks`: the name of each, and the folder of its copy.
        """
        ...

    async def check_ready(self, template: HarborTrialTemplate) -> None:
        """Raise where no trial could run here: no Docker, or tasks that were checked and ask for more than is here."""
        ...

    async def run(self, trial: HarborTrial) -> HarborTrialResult:
        """Run one trial to its end. What no other trial could do either (no Docker, no such agent) is raised."""
        ...

    async def aclose(self) -> None:
        """Release what is held on the running event loop."""
        ...


def copy_template(template: HarborTrialTemplate) -> HarborTrialTemplate:
    """Return a template that shares nothing that can change with the one given."""
    return replace(template)  # __post_init__ copies every config


def _with_modal_defaults(config: EnvironmentConfig) -> EnvironmentConfig:
    if config.type != "modal":
        return config
    return config.model_copy(update={"kwargs": {**MODAL_DEFAULTS, **config.kwargs}})


def _take_artifact(value: object) -> str | ArtifactConfig:
    return value if isinstance(value, str) else take_config(ArtifactConfig, value, "artifact")


def _as_tuple(name: str, value: object) -> tuple[Any, ...]:  # Any: each item is checked next
    if isinstance(value, (str, bytes, Path, Mapping)):
        raise TypeError(f"{name} must be a sequence, not {type(value).__name__}")
    try:
        return tuple(value)  # type: ignore[arg-type]  # what has no iterator is refused below
    except TypeError:
        raise TypeError(f"{name} must be a sequence, not {type(value).__name__}") from None


def _check_multiplier(name: str, value: object) -> None:
    if (
        isinstance(value, bool)
        or not isinstance(value, (int, float))
        or not math.isfinite(value)
        or value <= 0
    ):
        raise ValueError(f"{name} must be a number above 0, not {value!r}")
