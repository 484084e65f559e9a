"""What castform reads: names and strings. What they name is imported when it is used."""

from __future__ import annotations

from castform.plugins import EnvironmentSpec, hookimpl


@hookimpl
def register_environments() -> list[EnvironmentSpec]:
    return [
        EnvironmentSpec(
            name="default",
            summary="SUMMARY",
            factory="PACKAGE_NAME.environment:make_environment",
            config="PACKAGE_NAME.config:ExplainConfig",
            tags=("single-turn", "judge"),
        )
    ]
