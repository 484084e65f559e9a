"""What is installed, read from distribution metadata alone.

Imports nothing of a plugin and as little as possible itself: `castform env list` runs it.
It looks at `entry_points.txt` of every distribution on the path and opens the metadata
of those alone that are plugins.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from castform.plugins.names import normalize_name

GROUP = "castform"
"""Entry-point group."""
CORE = "castform"
"""The plugin that brings castform's own engines and rewards, and the distribution it is in."""
ALLOW_VARIABLE = "CASTFORM_PLUGINS"
"""When set, a comma-separated list of the only plugins to use; set and empty means none."""


class CatalogEntry(NamedTuple):  # not a dataclass: those import inspect, a tenth of the whole listing
    """One entry point of the group, with what its distribution says of itself."""

    name: str
    """The plugin's name as declared."""
    module: str
    """`package.module`, or `package.module:object`."""
    distribution: str
    version: str
    """Empty when the metadata does not say."""
    summary: str
    requirements: tuple[str, ...]
    """The distribution's requirements on castform, as written (PEP 508)."""
    path: str
    """The distribution's metadata folder."""


def list_installed(path: Sequence[str] | None = None) -> list[CatalogEntry]:
    """Return the plugins of every distribution on `path` (default: sys.path), sorted by name.

    A distribution that is there twice counts once: the first on the path, as for an import.
    Names that two distributions claim are all returned; the registry sorts that out.
    """
    found: dict[str, list[CatalogEntry]] = {}
    for folder in _iter_metadata_folders(sys.path if path is None else path):
        values = _read_entry_points(folder)
        if values is None:
            continue
        name, version, summary, requirements = _read_metadata(folder)
        found.setdefault(
            normalize_name(name),
            [
                CatalogEntry(
                    name=key,
                    module=value,
                    distribution=name,
                    version=version,
                    summary=summary,
                    requirements=requirements,
                    path=folder,
                )
                for key, value in values
            ],
        )
    entries = [entry for group in found.values() for entry in group]
    return sorted(entries, key=lambda e: (normalize_name(e.name), normalize_name(e.distribution)))


def allowed_names(environ: dict[str, str] | os._Environ[str] | None = None) -> frozenset[str] | None:
    """Return the plugins that CASTFORM_PLUGINS allows, in normal form; None when it is not set."""
    text = (os.environ if environ is None else environ).get(ALLOW_VARIABLE)
    if text is None:
        return None
    return frozenset(normalize_name(part.strip()) for part in text.split(",") if part.strip())


def select_allowed(entries: Iterable[CatalogEntry], allowed: frozenset[str] | None) -> list[CatalogEntry]:
    """Leave out what CASTFORM_PLUGINS does not allow. castform's own plugin always stays."""
    return [e for e in entries if allowed is None or normalize_name(e.name) in allowed or is_core(e)]


def find_clashes(entries: Iterable[CatalogEntry]) -> dict[str, list[str]]:
    """Return the names that more than one distribution claims, with the distributions."""
    claims: dict[str, list[str]] = {}
    for entry in entries:
        claims.setdefault(normalize_name(entry.name), []).append(entry.distribution)
    return {name: owners for name, owners in claims.items() if len(owners) > 1}


def is_core(entry: CatalogEntry) -> bool:
    """Say whether this is castform's own plugin."""
    return normalize_name(entry.name) == CORE and normalize_name(entry.distribution) == CORE


def _iter_metadata_folders(path: Sequence[str]) -> Iterator[str]:
    seen: set[str] = set()
    for item in path:
        folder = os.path.realpath(item or ".")
        if folder in seen:
            continue
        seen.add(folder)
        try:
            names = os.listdir(folder)  # noqa: PTH208  (pathlib costs a third of the whole listing)
        except OSError:
            continue
        for name in sorted(names):
            if name.endswith((".dist-info", ".egg-info")):
                yield f"{folder}/{name}"


def _read_entry_points(folder: str) -> list[tuple[str, str]] | None:
    """Return (name, value) pairs of our group; None for a distribution that is no plugin."""
    try:
        data = _read(f"{folder}/entry_points.txt")
    except OSError:
        return None
    if b"castform" not in data:
        return None
    pairs: list[tuple[str, str]] = []
    section = ""
    for raw in data.decode("utf-8", "replace").splitlines():
        line = raw.strip()
        if line.startswith("["):
            section = line.strip("[] \t")
        elif line and line[0] not in "#;" and section == GROUP:
            key, _, value = line.partition("=")
            pair = (key.strip(), value.partition("[")[0].strip())
            if pair not in pairs:
                pairs.append(pair)
    return pairs or None


def _read_metadata(folder: str) -> tuple[str, str, str, tuple[str, ...]]:
    """Return name, version, summary and the requirements on castform; the folder's name fills gaps."""
    stem = folder.rpartition("/")[2].rpartition(".")[0]
    name, _, version = stem.partition("-")
    summary = ""
    requirements: list[str] = []
    for line in _iter_headers(folder):
        key, _, value = line.partition(":")
        value = value.strip()
        match key.lower():
            case "name":
                name = value
            case "version":
                version = value
            case "summary":
                summary = value
            case "requires-dist" if normalize_name(value).startswith(CORE) and _is_on_core(value):
                requirements.append(value)
    return name, version, summary, tuple(requirements)


def _iter_headers(folder: str) -> Iterator[str]:
    for file_name in ("METADATA", "PKG-INFO"):
        try:
            data = _read(f"{folder}/{file_name}")
        except OSError:
            continue
        head = data.replace(b"\r\n", b"\n").partition(b"\n\n")[0]  # the description is not decoded
        for line in head.decode("utf-8", "replace").split("\n"):
            if not line.startswith((" ", "\t")):
                yield line
        return


def _read(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123  (read at once, a buffer only costs)
        return file.read()


def _is_on_core(requirement: str) -> bool:
    """`castform>=1`, `castform[train]`, but not `castform-env-arith`."""
    rest = requirement[len(CORE) :]
    return not rest or not (rest[0].isalnum() or rest[0] in "-_.")
