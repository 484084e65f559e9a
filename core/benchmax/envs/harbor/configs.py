"""What a trial is configured with: Harbor's field names, without Harbor being installed.

Harbor's own types are taken too, by their fields, wherever these are asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

ConfigT = TypeVar("ConfigT", bound="HarborConfig")


class HarborConfig(BaseModel):
    """A frozen config whose unknown keys are refused: Harbor ignores them, and with them every typing error."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class DatasetConfig(HarborConfig):
    """Where tasks come from: a folder, or a dataset of a registry."""

    path: Path | None = None
    """A task folder, or a folder of task folders. Relative: from the environment's base folder."""
    name: str | None = None
    """Of the dataset in a registry."""
    version: str | None = None
    ref: str | None = None
    registry_url: str | None = None
    registry_path: Path | None = None
    """A registry.json on disk; paths of its tasks start at its folder."""
    repo: str | None = None
    overwrite: bool = False
    """Fetch tasks anew that were fetched before."""
    download_dir: Path | None = None
    """Where fetched repositories stay. Unset: `downloads` under the base folder."""
    task_names: list[str] | None = None
    """Patterns of the tasks to take."""
    exclude_task_names: list[str] | None = None
    """Patterns of the tasks to leave out."""
    n_tasks: int | None = Field(None, ge=1)
    """Most tasks, after both patterns."""

    @model_validator(mode="after")
    def _check_source(self) -> DatasetConfig:
        if self.version is not None and self.ref is not None:
            raise ValueError("give version or ref, not both")
        if self.repo is None and (self.path is None) == (self.name is None):
            raise ValueError("give either path (a folder) or name (of a dataset in a registry)")
        return self


class AgentConfig(HarborConfig):
    """Which agent works on the task. Which model it asks is the rollout's to say."""

    name: str | None = None
    """An agent by name. Neither this nor import_path: oracle."""
    import_path: str | None = None
    """`module:Class` of an agent written for Harbor; only the real harbor runs those."""
    model_name: str | None = None
    base_url: str | None = None
    model_api_key_name: str | None = None
    model_api_format: str | None = None
    skip_model_parsing: bool = False
    n_concurrent: int | None = Field(None, ge=1)
    concurrency_group: str | None = None
    skills: list[str] = Field(default_factory=list)
    override_timeout_sec: float | None = Field(None, gt=0)
    override_setup_timeout_sec: float | None = Field(None, gt=0)
    max_timeout_sec: float | None = Field(None, gt=0)
    resume_trajectory: bool = False
    load_trajectory: str | None = None
    extra_allowed_hosts: list[str] = Field(default_factory=list)
    include_logs: list[str] = Field(default_factory=list)
    exclude_logs: list[str] = Field(default_factory=list)
    kwargs: dict[str, Any] = Field(default_factory=dict)  # Any: arguments of the agent's own constructor
    env: dict[str, str] = Field(default_factory=dict, repr=False)
    mcp_servers: list[dict[str, Any]] = Field(default_factory=list)

    @model_validator(mode="before")
    @classmethod
    def _default_name(cls, data: Any) -> Any:
        if isinstance(data, Mapping) and not data.get("name") and not data.get("import_path"):
            return {**data, "name": "oracle"}
        return data


class EnvironmentConfig(HarborConfig):
    """Where the task's box runs."""

    type: str | None = None
    """docker, bubblewrap or process here; with the real harbor any of its own. Unset: docker."""
    import_path: str | None = None
    force_build: bool = False
    delete: bool = True
    stream: bool = False
    cpu_enforcement_policy: str = "auto"
    memory_enforcement_policy: str = "auto"
    override_cpus: float | None = Field(None, gt=0)
    override_memory_mb: int | None = Field(None, gt=0)
    override_storage_mb: int | None = Field(None, gt=0)
    override_gpus: int | None = Field(None, ge=0)
    override_tpu: dict[str, Any] | None = None
    mounts: list[dict[str, Any]] | None = None
    extra_docker_compose: list[Path] = Field(default_factory=list)
    env: dict[str, str] = Field(default_factory=dict, repr=False)
    kwargs: dict[str, Any] = Field(default_factory=dict)  # Any: options of the provider
    extra_allowed_hosts: list[str] = Field(default_factory=list)

    @model_validator(mode="before")
    @classmethod
    def _default_type(cls, data: Any) -> Any:
        if isinstance(data, Mapping) and not data.get("type") and not data.get("import_path"):
            return {**data, "type": "docker"}
        return data


class VerifierConfig(HarborConfig):
    """How the work is judged."""

    override_timeout_sec: float | None = Field(None, gt=0)
    max_timeout_sec: float | None = Field(None, gt=0)
    include_logs: list[str] = Field(default_factory=list)
    exclude_logs: list[str] = Field(default_factory=list)
    env: dict[str, str] = Field(default_factory=dict, repr=False)
    import_path: str | None = None
    kwargs: dict[str, Any] = Field(default_factory=dict)
    disable: bool = False
    extra_allowed_hosts: list[str] = Field(default_factory=list)


class ArtifactConfig(HarborConfig):
    """A path in the box that is kept when the trial ends."""

    source: str
    destination: str | None = None
    exclude: list[str] = Field(default_factory=list)
    service: str | None = None


def take_config(kind: type[ConfigT], value: object, name: str) -> ConfigT:
    """Return a config of our own from one of ours, a mapping, or Harbor's own type, as a copy of its own.

    TypeError: none of them. ValueError: fields that this version does not know, or wrong values.
    """
    if isinstance(value, kind):
        return value.model_copy(deep=True)
    if isinstance(value, Mapping):
        return kind.model_validate(dict(value))
    if isinstance(value, BaseModel) and type(value).__name__ == kind.__name__:
        fields = value.model_dump(mode="json", exclude_defaults=True, context={"redact_sensitive_env": False})
        return kind.model_validate(fields)
    raise TypeError(f"{name} must be a {kind.__name__}, not {type(value).__name__}")
