"""What an engine holds to, asked and tried."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from castform.sandbox.contract import Capabilities
from castform_sandbox_docker.engine import Engine, explain_engine

if TYPE_CHECKING:
    import docker


async def has_storage_size(engine: Engine, info: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Say whether the engine's storage driver holds a box to a size, by making a container of one."""
    from docker.errors import APIError

    backing = dict(entry for entry in info.get("DriverStatus") or () if len(entry) == 2).get(
        "Backing Filesystem"
    )
    driver = info.get("Driver")
    if driver not in ("btrfs", "zfs", "devicemapper") and not (driver == "overlay2" and backing == "xfs"):
        return False
    with explain_engine():
        images = await engine.call(lambda client: client.images(quiet=True))
    if not images:
        return False
    name = f"castform-probe-{secrets.token_hex(6)}"

    def work(client: docker.APIClient) -> None:  # in one: whoever is cancelled meanwhile leaves nothing
        made = client.create_container(
            images[0],
            ["true"],
            name=name,
            labels=dict(labels),
            host_config=client.create_host_config(storage_opt={"size": "1G"}, network_mode="none"),
        )
        client.remove_container(made["Id"], v=True, force=True)

    try:
        await engine.call(work)
    except APIError:
        return False
    return True


def describe(info: Mapping[str, Any], *, storage_size: bool, local: bool, inside_view: bool) -> Capabilities:
    """Return what boxes of an engine hold to."""
    options = " ".join(map(str, info.get("SecurityOptions") or ()))
    notes = ["boxes share this machine's kernel: a fault in the kernel is a way out"]
    if not storage_size:
        notes.append(
            f"the {info.get('Driver')} storage holds no box to a size: what a box writes is measured about once "
            "a second, and a box that wrote too much is killed; one file is held to the size by the kernel"
        )
    if "seccomp" not in options:
        notes.append("the engine filters no system calls (seccomp is off)")
    if not info.get("SwapLimit"):
        notes.append("swap is not limited by this kernel")
    if not local:
        notes.append("the engine is on another machine: no model can be made reachable from its boxes")
    elif not inside_view:
        notes.append("a model is reachable from boxes whose image has one of python3, node, perl, socat")
    notes.append("with a public network a box reaches what this machine serves on all of its addresses")
    return Capabilities(
        isolated=True,
        cpus="enforced" if info.get("CpuCfsQuota") else "not enforced",
        memory="enforced" if info.get("MemoryLimit") else "not enforced",
        pids="enforced" if info.get("PidsLimit") else "not enforced",
        disk="enforced" if storage_size else "watched",
        networks=frozenset({"none", "public", "allowlist"} if local else {"none", "public"}),
        users=True,
        images=True,
        notes=tuple(notes),
    )
