"""What castform reads: names and strings, nothing heavy imported."""

from __future__ import annotations

from castform.plugins import SandboxSpec, hookimpl


@hookimpl
def register_sandboxes() -> list[SandboxSpec]:
    return [
        SandboxSpec(
            name="default",
            summary="Linux namespaces by bubblewrap: no daemon, the host's programs, a small Dockerfile interpreter",
            factory="castform_sandbox_bubblewrap.provider:BubblewrapProvider",
            config="castform_sandbox_bubblewrap.config:BubblewrapConfig",
        )
    ]
