"""What castform reads: names and strings, nothing heavy imported."""

from __future__ import annotations

from castform.plugins import EnvironmentSpec, hookimpl


@hookimpl
def register_environments() -> list[EnvironmentSpec]:
    return [
        EnvironmentSpec(
            name="env",
            summary="An installed verifiers environment, by the name that its load_environment goes by",
            factory="castform_env_verifiers.loading:make_environment",
            config="castform_env_verifiers.config:VerifiersConfig",
            tags=("adapter",),
        ),
        EnvironmentSpec(
            name="sums",
            summary="A small verifiers environment to try the plugin with: sums, answered in tags",
            factory="castform_env_verifiers.loading:make_sums",
            config="castform_env_verifiers.config:SumsConfig",
            tags=("single-turn", "easy"),
        ),
    ]
