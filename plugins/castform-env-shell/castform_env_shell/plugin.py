"""What castform reads: names and strings, nothing heavy imported."""

from __future__ import annotations

from castform.plugins import EnvironmentSpec, hookimpl


@hookimpl
def register_environments() -> list[EnvironmentSpec]:
    return [
        EnvironmentSpec(
            name="default",
            summary="Work with files by shell commands in a container; a check outside looks at the result",
            factory="castform_env_shell.environment:make_shell",
            config="castform_env_shell.config:ShellConfig",
            tags=("multi-turn", "sandbox", "generated"),
        )
    ]
