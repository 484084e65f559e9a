"""Install a plugin into a virtual environment of its own."""

from __future__ import annotations

import hashlib
import json
import platform
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from castform import __version__
from castform.errors import UsageError
from castform.isolation.build import build_environment, describe_plugins, save_locked
from castform.isolation.installers import ResolverName, Sources, check_wheels, choose_resolver
from castform.isolation.lock import Lock, python_identity
from castform.isolation.requested import Requested, read_requested
from castform.isolation.resolve import Resolved, resolve
from castform.isolation.runtime_links import link_runtime
from castform.isolation.runtime_wheel import list_runtime_requirements
from castform.isolation.store import (
    READY,
    IsolatedRecord,
    hold_lock,
    is_usable,
    isolated_folder,
    read_ready,
    read_record,
    write_json,
    write_record,
)
from castform.plugins.names import normalize_name


@dataclass(frozen=True, kw_only=True, slots=True)
class Installed:
    """What an installation came to."""

    record: IsolatedRecord
    was_built: bool
    """False: an environment of the same lock was there."""
    conflict: str = ""
    """Why castform's own dependencies were left out, when that was found out now."""


def install_isolated(
    requirement: str,
    *,
    also: Sequence[str] = (),
    sources: Sources | None = None,
    resolver: ResolverName = "auto",
    upgrade: bool = False,
    save_wheels: Path | None = None,
    on_stage: Callable[[str], None] = lambda _: None,
) -> Installed:
    """Install a requirement, wheel or folder in an environment named after its lock, if it is not there.

    Asking for the same again, by any number of processes at a time, resolves and builds once; `upgrade`
    resolves again. The plugins are loaded in the new environment once, and the environment becomes the
    one that counts for its distribution only when that works. An environment of another lock stays, for
    runs that use it, until `remove_isolated`.

    What `also` names goes into the environment too; `save_wheels` is a folder that gets every wheel, for
    `Sources(wheels=…, offline=True)` on another machine.

    Raises UsageError for what cannot be asked for and for a folder that cannot be written,
    MissingError when something cannot be had, RunFailedError when the plugin does not load.
    """
    sources = sources or Sources()
    check_wheels(sources)
    requests = [read_requested(text) for text in (requirement, *also)]
    requested = requests[0]
    key = _request_key(requests)
    try:
        link_runtime()
        with hold_lock(requested.distribution):
            present = read_record(requested.distribution)
            if (
                present is not None
                and present.request == key
                and is_usable(present)
                and not (upgrade or save_wheels)
            ):
                return Installed(record=present, was_built=False)
            return _install(requests, key, sources, resolver, save_wheels, on_stage)
    except OSError as error:
        raise UsageError(
            f"cannot build an environment in {isolated_folder()} ({error.strerror or error})",
            hint="set CASTFORM_HOME to a folder that you can write",
        ) from error


def remove_isolated(distribution: str) -> list[str]:
    """Remove every environment of a distribution and return their folders' names; none when there is none."""
    place = Path(isolated_folder())
    record = read_record(distribution)
    if record is None:
        return []
    with hold_lock(record.distribution):
        name = Path(f"{_normal(record)}.json").name
        (place / name).unlink(missing_ok=True)  # first: from here on nothing finds it
        prefix = f"{_normal(record)}-"
        folders = [
            found
            for found in place.iterdir()
            if found.is_dir() and found.name.removeprefix(prefix).isalnum() and found.name.startswith(prefix)
        ]
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
    return sorted(folder.name for folder in folders)


def _install(
    requests: Sequence[Requested],
    key: str,
    sources: Sources,
    resolver: ResolverName,
    save_wheels: Path | None,
    on_stage: Callable[[str], None],
) -> Installed:
    requested = requests[0]
    with tempfile.TemporaryDirectory(prefix="castform-install-") as work:
        resolved = resolve(
            requests,
            resolver=choose_resolver(resolver),
            sources=sources,
            work=Path(work),
            on_stage=on_stage,
        )
        lock = resolved.lock
        if lock.find(requested.distribution) is None:
            raise UsageError(f"{requested.text} is not a distribution called {requested.distribution}")
        if save_wheels is not None:
            on_stage(f"saving wheels in {save_wheels}")
            save_locked(lock, save_wheels, sources)
        folder = _folder_of(requested, lock)
        present = read_ready(str(folder))
        built = present is None or not is_usable(present)
        if built:
            build_environment(
                lock,
                folder,
                sources=sources,
                finish=lambda place: _describe(place, requested, resolved, on_stage),
                on_stage=on_stage,
            )
    record = read_ready(str(folder))
    if record is None:
        raise UsageError(f"{folder} was changed while it was built", hint="install it again")
    record = record._replace(request=key)
    write_record(record)
    return Installed(record=record, was_built=built, conflict=resolved.conflict)


def _describe(place: Path, requested: Requested, resolved: Resolved, on_stage: Callable[[str], None]) -> None:
    """Load the plugins once and leave a record in the environment: what makes it count."""
    on_stage(f"loading the plugin of {requested.distribution}")
    lock: Lock = resolved.lock
    found: dict[str, Any] = describe_plugins(place, requested.distribution)
    record = IsolatedRecord(
        distribution=found["distribution"],
        version=found["version"],
        summary=found["summary"],
        requirements=tuple(found["requirements"]),
        folder=str(place),
        metadata=found["metadata"],
        python=platform.python_version(),
        castform=__version__,
        runtime=lock.runtime,
        resolver=lock.resolver,
        request="",
        lock=lock.digest(),
        packages=len(lock.items),
        plugins=found["plugins"],
    )
    write_json(f"{place}/{READY}", record._replace(folder=str(_folder_of(requested, lock))))


def _folder_of(requested: Requested, lock: Lock) -> Path:
    """Return where the environment of a lock is, or will be."""
    return Path(isolated_folder()) / f"{requested.distribution}-{lock.digest()[:16]}"


def _request_key(requests: Sequence[Requested]) -> str:
    """Return the hash of what was asked for, of which Python and of which castform."""
    content = [
        [[item.text if item.path is None else item.distribution, item.content] for item in requests],
        python_identity(),
        __version__,
        list_runtime_requirements("full"),
    ]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def _normal(record: IsolatedRecord) -> str:
    return normalize_name(record.distribution)
