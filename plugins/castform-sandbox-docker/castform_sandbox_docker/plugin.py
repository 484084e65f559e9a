"""What castform reads: names and strings, nothing heavy imported."""

from __future__ import annotations

from castform.plugins import SandboxSpec, hookimpl


@hookimpl
def register_sandboxes() -> list[SandboxSpec]:
    return [
        SandboxSpec(
            name="default",
            summary="Containers of a Docker engine",
            factory="castform_sandbox_docker.provider:DockerProvider",
            config="castform_sandbox_docker.config:DockerConfig",
        )
    ]
