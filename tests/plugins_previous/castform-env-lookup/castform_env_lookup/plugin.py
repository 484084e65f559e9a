"""What castform reads: names and strings, nothing heavy imported."""

from __future__ import annotations

from castform.plugins import EnvironmentSpec, hookimpl


@hookimpl
def register_environments() -> list[EnvironmentSpec]:
    return [
        EnvironmentSpec(
            name="places",
            summary="Facts about 200 invented places, one or two lookups a question",
            factory="castform_env_lookup.environment:Lookup",
            config="castform_env_lookup.config:LookupConfig",
            tags=("multi-turn", "tools"),
        )
    ]
