"""What a container is made of: from a request to the engine's terms."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from castform.sandbox.contract import BoxRequest
from castform_sandbox_docker.config import DockerConfig
from castform_sandbox_docker.doors import INSIDE
from castform_sandbox_docker.images import Image
from castform_sandbox_docker.limits import make_limit_options

if TYPE_CHECKING:
    import docker

KEPT_CAPABILITIES = (
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "NET_BIND_SERVICE",
    "SETGID",
    "SETUID",
)
"""What root in a box needs to install software, own files, become other users, end their processes
and serve on a low port. Not: raw packets, device nodes, chroot, file capabilities, audit, ptrace."""
INNER_CAPABILITY = "SYS_PTRACE"
"""Beside these where boxes cannot be seen from outside: root in a box then sees the environments of
other users' processes, by which a command's descendants are known."""
INIT = "trap '' HUP INT QUIT TERM USR1 USR2 PIPE; while :; do sleep 2147483 & wait $!; done"
"""The first process of a box that runs nothing of its image. As first process it reaps orphans, and
the kernel lets nothing in the box kill it: `kill -9 -1` ends all else."""
_LOG_OPTIONS = {"max-size": "1m", "max-file": "1"}


def make_options(
    client: docker.APIClient,
    request: BoxRequest,
    image: Image,
    config: DockerConfig,
    *,
    name: str,
    labels: Mapping[str, str],
    network: str,
    folder: Path | None,
    storage_size: bool,
    inner: bool,
) -> dict[str, Any]:  # Any: the SDK's keywords
    """Return the keywords for the SDK's `create_container`.

    `inner`: the box will be looked at from inside. `folder`: with sockets, to be mounted.
    """
    from docker.types import LogConfig, Ulimit

    limits = make_limit_options(request.limits)
    limits["ulimits"] = [*limits.get("ulimits", ()), Ulimit(name="core", soft=0, hard=0)]
    if storage_size and request.limits.disk_mb is not None:
        limits["storage_opt"] = {"size": f"{request.limits.disk_mb}M"}
    has_entrypoint = bool((image.get("Config") or {}).get("Entrypoint"))
    keep = request.keep_entrypoint and has_entrypoint
    host = client.create_host_config(
        network_mode=network,
        cap_drop=["ALL"],
        cap_add=sorted({*KEPT_CAPABILITIES, *config.capabilities, *([INNER_CAPABILITY] if inner else [])}),
        security_opt=None if config.new_privileges else ["no-new-privileges"],
        init=keep,
        log_config=LogConfig(type="json-file", config=_LOG_OPTIONS),
        binds=[f"{folder}:{INSIDE}:ro"] if folder is not None else None,
        ipc_mode="private",
        **limits,
    )
    options: dict[str, Any] = {
        "image": image["Id"],
        "name": name,
        "environment": dict(request.env),
        "labels": dict(labels),
        "host_config": host,
        "healthcheck": {"test": ["NONE"]},
    }
    if request.workdir is not None:
        options["working_dir"] = request.workdir
    if keep:
        options["command"] = ["sh", "-c", "sleep infinity"]
    else:
        options["entrypoint"] = ["/bin/sh", "-c", INIT]
        options["user"] = "0"
    return options


def choose_user(request: BoxRequest, image: Image) -> str:
    """Return whose commands are that name no user."""
    return request.user or (image.get("Config") or {}).get("User") or "0"
