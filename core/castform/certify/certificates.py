"""Where certificates lie, and whether they still hold.

A certificate pins what it is about: the distribution, its version, the hash over the package's
files and the probes it was made with. When one of them changes it has expired. Reads files
only: `castform env list` imports this, so it imports little, and no plugin at all.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from castform.home import castform_home, castform_home_text
from castform.plugins.names import normalize_name

if TYPE_CHECKING:
    from pathlib import Path

    from castform.plugins.catalog import CatalogEntry

FORMAT = "castform-certificate-1"
BATTERY_VERSION = "1"
"""Changes with the probes and checks: a certificate of others says something else."""
FOLDER = "certificates"
"""Below CASTFORM_HOME, and in the package of an author who ships them."""
SEPARATOR = "--"


class CertificateState(NamedTuple):  # not a dataclass: those cost a tenth of the whole listing
    """What a certificate says today."""

    environment: str
    """Its name in the plugin."""
    status: str
    """passed, failed, unchecked (nothing was scored), or expired."""
    changes: tuple[str, ...] = ()
    """Why it has expired."""
    shipped: bool = False
    """It came with the package."""

    def __str__(self) -> str:
        return f"expired: {', '.join(self.changes)}" if self.changes else self.status


def certificates_folder() -> Path:
    """Return the folder of certificates that were made here. It need not exist yet."""
    return castform_home() / FOLDER


def certificate_name(id: str, args_digest: str = "") -> str:
    """Return the file name for `plugin/environment`; other arguments than the default have their own."""
    plugin, _, environment = id.partition("/")
    parts = [normalize_name(plugin), normalize_name(environment), *([args_digest] if args_digest else [])]
    return f"{SEPARATOR.join(parts)}.json"


def read_certificate(path: str | Path) -> dict[str, Any] | None:
    """Return a certificate, or None where there is none or the file is something else."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123  (pathlib costs much of the listing)
            data = json.loads(file.read())
    except (OSError, ValueError, RecursionError):  # nested deeper than anything that was written here
        return None
    return data if isinstance(data, dict) and data.get("format") == FORMAT else None


def read_states(entry: CatalogEntry, made_here: Sequence[str] | None = None) -> list[CertificateState]:
    """Return the certificates of a plugin, its environments made with their default arguments, by name.

    One that was made here counts before one that the package ships, unless it has expired.
    `made_here` is what `list_made_here` gave, for whoever asks for many plugins.
    """
    made_here = list_made_here() if made_here is None else made_here
    files = PackageFiles(entry)
    found: dict[str, CertificateState] = {}
    for shipped, path in [*_of_plugin(entry.name, made_here), *_shipped(files.folder(files.package))]:
        data = read_certificate(path)
        if data is None or data.get("arguments"):
            continue
        name = str(data.get("environment_name", ""))
        if name in found and not found[name].changes:
            continue
        changes = tuple(_find_changes(data, entry, files))
        status = "expired" if changes else _verdict(data)
        if name not in found or not changes:
            found[name] = CertificateState(name, status, changes, shipped)
    return [found[name] for name in sorted(found)]


def _find_changes(certificate: Mapping[str, Any], entry: CatalogEntry, files: PackageFiles) -> Sequence[str]:
    """Return what is no longer as it was certified, in a few words each; empty while it holds."""
    pin = certificate.get("environment")
    pin = pin if isinstance(pin, Mapping) else {}
    changes = []
    if normalize_name(str(pin.get("distribution"))) != normalize_name(entry.distribution):
        changes.append(f"distribution {pin.get('distribution')} -> {entry.distribution}")
    if pin.get("version") != entry.version:
        changes.append(f"version {pin.get('version')} -> {entry.version}")
    if not changes:  # a new version has new files, of course
        name = str(certificate.get("package") or files.package)
        if files.hash(name) != pin.get("content_sha256"):
            changes.append("files")
    if certificate.get("battery") != BATTERY_VERSION:
        changes.append(f"probes {certificate.get('battery')} -> {BATTERY_VERSION}")
    return changes


def summarize_states(states: Iterable[CertificateState]) -> str:
    """Return the certificates of a plugin as one cell."""
    states = list(states)
    if not states:
        return "none"
    if len(states) == 1:
        return str(states[0])
    counts = {
        kind: sum(state.status == kind for state in states)
        for kind in ("passed", "failed", "unchecked", "expired")
    }
    return ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)


def _verdict(certificate: Mapping[str, Any]) -> str:
    if certificate.get("passed") is True:
        return "passed"
    return "unchecked" if certificate.get("verdict") == "unchecked" else "failed"


def list_made_here() -> list[str]:
    """Return the paths of all certificates that were made here."""
    return _json_files(f"{castform_home_text()}/{FOLDER}")


def _of_plugin(plugin: str, paths: Sequence[str]) -> list[tuple[bool, str]]:
    if not paths:
        return []
    prefix = f"/{normalize_name(plugin)}{SEPARATOR}"
    return [(False, path) for path in paths if path[path.rindex("/") :].startswith(prefix)]


def _shipped(package: str | None) -> list[tuple[bool, str]]:
    return [] if package is None else [(True, path) for path in _json_files(f"{package}/{FOLDER}")]


def _json_files(folder: str) -> list[str]:
    try:
        return [f"{folder}/{name}" for name in sorted(os.listdir(folder)) if name.endswith(".json")]  # noqa: PTH208
    except OSError:
        return []


class PackageFiles:
    """Where a plugin's top-level packages lie and what is in them, each looked up once; nothing is imported."""

    def __init__(self, entry: CatalogEntry) -> None:
        self.package = entry.module.partition(":")[0].partition(".")[0]
        """The one that the entry point names."""
        self._site = entry.path.rpartition("/")[0]
        self._folders: dict[str, str | None] = {}
        self._hashes: dict[str, str] = {}

    def folder(self, name: str) -> str | None:
        """Return a package's folder, a single module's file, or None where there is no such package."""
        if name not in self._folders:
            self._folders[name] = _find_package(name, self._site)
        return self._folders[name]

    def hash(self, name: str) -> str | None:
        """Return the hash over a package's content, or None where there is no such package."""
        folder = self.folder(name)
        if folder is None:
            return None
        if folder not in self._hashes:
            self._hashes[folder] = _hash(folder)
        return self._hashes[folder]


def _find_package(name: str, site: str) -> str | None:
    for folder in (site, *sys.path):  # what importlib asks every finder for is nearly always here
        found = f"{folder or os.getcwd()}/{name}"  # noqa: PTH109
        if os.path.isfile(f"{found}/__init__.py"):  # noqa: PTH113
            return found
        if os.path.isfile(f"{found}.py"):  # noqa: PTH113
            return f"{found}.py"
    from importlib.util import find_spec

    try:
        spec = find_spec(name)
    except (ImportError, ValueError):
        return None
    if spec is None or spec.origin is None:
        return None
    return spec.origin.rpartition("/")[0] if spec.submodule_search_locations else spec.origin


def _hash(path: str) -> str:
    from castform.plugins.content import hash_content

    return hash_content(os.path.realpath(path))
