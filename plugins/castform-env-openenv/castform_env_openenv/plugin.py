"""What castform reads: names and strings, nothing heavy imported."""

from __future__ import annotations

from castform.plugins import EnvironmentSpec, hookimpl


@hookimpl
def register_environments() -> list[EnvironmentSpec]:
    return [
        EnvironmentSpec(
            name="server",
            summary="An OpenEnv server that runs somewhere or is started here",
            factory="castform_env_openenv.environment:make_server",
            config="castform_env_openenv.config:ServerConfig",
            tags=("multi-turn", "openenv"),
        ),
        EnvironmentSpec(
            name="example",
            summary="A little server of this plugin's own: repeat two words, twice",
            factory="castform_env_openenv.example:make_example",
            config="castform_env_openenv.config:ExampleConfig",
            tags=("multi-turn", "openenv", "easy"),
        ),
    ]
