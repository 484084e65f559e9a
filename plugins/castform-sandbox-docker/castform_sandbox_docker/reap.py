"""What dead owners left with an engine: containers, networks, folders with sockets. Only that."""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from castform.sandbox.owner import PREFIX, Owner, is_alive
from castform_sandbox_docker.engine import Engine, explain_engine

if TYPE_CHECKING:
    import docker

OWNER_FILE = "owner.json"


async def reap_engine(engine: Engine) -> list[str]:
    """Remove containers and networks whose owner is known to be dead; return their names."""
    from docker.errors import APIError

    removed = []
    filters = {"label": f"{PREFIX}pid"}
    with explain_engine():
        boxes = await engine.call(lambda client: client.containers(all=True, filters=filters))
        networks = await engine.call(lambda client: client.networks(filters=filters))
    for box in boxes:
        owner = Owner.from_labels(box.get("Labels") or {})
        if owner is None or is_alive(owner):
            continue
        try:
            await engine.call(_removal_of_box(box["Id"]))
        except APIError:
            continue  # another reaper was faster
        removed.append(box["Names"][0].lstrip("/") if box.get("Names") else box["Id"][:12])
    for network in networks:
        owner = Owner.from_labels(network.get("Labels") or {})
        if owner is None or is_alive(owner):
            continue
        try:
            await engine.call(_removal_of_network(network["Id"]))
        except APIError:
            continue
        removed.append(network["Name"])
    return removed


def _removal_of_box(id: str) -> Callable[[docker.APIClient], None]:
    return lambda client: client.remove_container(id, v=True, force=True)


def _removal_of_network(id: str) -> Callable[[docker.APIClient], None]:
    return lambda client: client.remove_network(id)


def reap_folders(root: Path) -> list[str]:
    """Remove the folders of boxes whose owner is known to be dead; return their names.

    None of a folder that somebody else has put there: it lies where everybody may write.
    """
    removed = []
    for folder in sorted(root.iterdir()) if is_own(root) else ():
        try:
            owner = Owner.from_labels(json.loads((folder / OWNER_FILE).read_text("utf-8")))
        except (OSError, ValueError, AttributeError):
            continue
        if owner is not None and not is_alive(owner):
            shutil.rmtree(folder, ignore_errors=True)
            removed.append(folder.name)
    return removed


def is_own(folder: Path) -> bool:
    """Say whether a path is a folder, no link to one, that nobody but this user gets into."""
    try:
        status = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o077
