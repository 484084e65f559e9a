"""What a task.toml says, as data: today's schema (1.4), into which the older ones are read.

Times are seconds, sizes MiB. A field that a task leaves open is None, where Harbor leaves it to the provider.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from castform.harness.contract import McpServer
from castform.sandbox.contract import NetworkPolicy

VerifierMode = Literal["shared", "separate"]
RewardStrategy = Literal["mean", "final"]

MAIN_SERVICE = "main"
ARTIFACTS_DIR = "/logs/artifacts"
"""Collected from every task, whatever it lists."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Artifact:
    """Something that is carried out of the agent's box, and into a verifier's own."""

    source: str
    """A path in the box; relative ones start at its working folder."""
    destination: str | None = None
    """Where it lies below the trial's artifacts/; None: its own path. A verifier sees it at `source`."""
    exclude: tuple[str, ...] = ()
    """Patterns of names that stay behind, for folders."""
    service: str = MAIN_SERVICE


@dataclass(frozen=True, kw_only=True, slots=True)
class CollectHook:
    """A command that writes down what runs, after the agent and before the artifacts are taken."""

    command: str
    service: str = MAIN_SERVICE
    timeout_seconds: float = 60.0
    user: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Healthcheck:
    """When a box is ready. As Docker's HEALTHCHECK, run from outside."""

    command: str
    interval_seconds: float = 5.0
    timeout_seconds: float = 30.0
    start_period_seconds: float = 0.0
    """A failure within it does not count."""
    start_interval_seconds: float = 5.0
    retries: int = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class EnvironmentConfig:
    """A box of the task: the agent's, or a verifier's own."""

    build_timeout_seconds: float = 600.0
    docker_image: str | None = None
    os: str | None = None
    """"linux" or "windows"; None: not said, which means linux."""
    cpus: float | None = None
    memory_mb: int | None = None
    storage_mb: int | None = None
    gpus: int | None = None
    gpu_types: tuple[str, ...] = ()
    tpu: Mapping[str, str] | None = None
    network: NetworkPolicy = field(default_factory=lambda: NetworkPolicy(mode="public"))
    says_network: bool = False
    """Whether the task itself asks for this network; else it is Harbor's default."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Values may be templates: `templates.fill_templates`."""
    workdir: str | None = None
    mcp_servers: tuple[McpServer, ...] = ()
    skills_dir: str | None = None
    healthcheck: Healthcheck | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentConfig:
    timeout_seconds: float | None = None
    """None: no limit of the task's."""
    user: str | None = None
    network: NetworkPolicy | None = None
    """While the agent runs; None: the environment's."""


@dataclass(frozen=True, kw_only=True, slots=True)
class VerifierConfig:
    timeout_seconds: float = 600.0
    """A step's is 600 unless the step says otherwise: it does not inherit the task's."""
    env: Mapping[str, str] = field(default_factory=dict)
    user: str | None = None
    network: NetworkPolicy | None = None
    mode: VerifierMode | None = None
    environment: EnvironmentConfig | None = None
    collect: tuple[CollectHook, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class StepConfig:
    """One step of several."""

    name: str
    agent: AgentConfig = field(default_factory=AgentConfig)
    verifier: VerifierConfig = field(default_factory=VerifierConfig)
    min_reward: Mapping[str, float] = field(default_factory=dict)
    """By reward key: what has to be reached for the next step to be taken."""
    healthcheck: Healthcheck | None = None
    artifacts: tuple[Artifact, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskConfig:
    schema_version: str = "1.4"
    name: str | None = None
    """[task] name, `org/name`."""
    version: str | None = None
    description: str = ""
    keywords: tuple[str, ...] = ()
    source: str | None = None
    reward_strategy: RewardStrategy | None = None
    """How the rewards of steps become the task's; None: mean."""
    artifacts: tuple[Artifact, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)  # Any: free form, the author's
    agent: AgentConfig = field(default_factory=AgentConfig)
    verifier: VerifierConfig = field(default_factory=VerifierConfig)
    environment: EnvironmentConfig = field(default_factory=EnvironmentConfig)
    solution_env: Mapping[str, str] = field(default_factory=dict)
    steps: tuple[StepConfig, ...] = ()


def resolve_verifier_mode(config: TaskConfig, step: StepConfig | None = None) -> VerifierMode:
    """Say where the tests run: as the step says, else as the task says, else with the agent.

    A verifier with an environment of its own is separate without saying so.
    """
    for verifier in [*([step.verifier] if step else []), config.verifier]:
        if verifier.mode is not None:
            return verifier.mode
        if verifier.environment is not None:
            return "separate"
    return "shared"
