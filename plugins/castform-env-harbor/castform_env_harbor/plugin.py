"""What castform reads: names and strings, nothing heavy imported."""

from __future__ import annotations

from castform.plugins import EnvironmentSpec, hookimpl


@hookimpl
def register_environments() -> list[EnvironmentSpec]:
    return [
        EnvironmentSpec(
            name="default",
            summary="A folder, dataset or registry file of Harbor tasks, worked on by a harness",
            factory="castform_env_harbor.environment:make_harbor",
            config="castform_env_harbor.config:HarborConfig",
            tags=("multi-turn", "sandbox", "harness"),
        )
    ]
