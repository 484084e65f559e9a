"""What castform reads."""

from __future__ import annotations

from castform.plugins import EnvironmentSpec, hookimpl


@hookimpl
def register_environments() -> EnvironmentSpec:
    return EnvironmentSpec(
        name="sums",
        summary="Sums, answered as JSON and read with pydantic 1",
        factory="castform_env_pydantic_one.environment:Sums",
    )
