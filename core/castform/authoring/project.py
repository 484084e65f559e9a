"""A plugin's source folder, as its pyproject.toml describes it."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from castform.authoring.names import PREFIX, derive_names
from castform.errors import UsageError
from castform.plugins.catalog import GROUP
from castform.plugins.names import normalize_name


@dataclass(frozen=True, kw_only=True, slots=True)
class Project:
    """The source of a plugin distribution."""

    folder: Path
    """Absolute."""
    name: str
    """The distribution's name as written."""
    table: Mapping[str, Any]
    """`[project]`."""
    plugins: Mapping[str, str]
    """Entry points of the group `castform`: plugin name to module."""
    tool: Mapping[str, Any]
    """`[tool]`."""
    backend: str
    """The build backend, `setuptools` where none is named (PEP 517)."""
    build_requirements: tuple[str, ...]

    @property
    def packages(self) -> dict[str, Path | None]:
        """The top-level packages that plugins lie in, and where their source is; None: not found."""
        names = dict.fromkeys(value.partition(":")[0].partition(".")[0] for value in self.plugins.values())
        return {name: self._find_source(name) for name in names}

    def _find_source(self, package: str) -> Path | None:
        places = (self.folder / package, self.folder / "src" / package)
        return next((place for place in places if place.is_dir()), None)


def read_project(folder: Path) -> Project:
    """Read the pyproject.toml of a plugin.

    UsageError: there is no such folder or file, it is no TOML, has no `[project]` with a
    name, or names no plugin.
    """
    file = folder / "pyproject.toml"
    if not file.is_file():
        what = "is no folder" if not folder.is_dir() else "has no pyproject.toml"
        raise UsageError(
            f"{folder} {what}",
            hint="give the folder of a plugin's source; `castform env new NAME` writes one",
        )
    try:
        data = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} is no TOML: {error}") from error
    table = _table(data, "project")
    name = table.get("name")
    if not isinstance(name, str) or not name:
        raise UsageError(f"{file} has no [project] with a name", hint=_hint(f"{PREFIX}NAME"))
    points = _table(table, "entry-points")
    plugins = _table(points, GROUP)
    if not plugins or not all(isinstance(value, str) for value in plugins.values()):
        others = f"; it has the groups {', '.join(map(repr, points))}" if points else ""
        raise UsageError(
            f"{name} is not a plugin: {file} has no entry point in the group {GROUP!r}{others}",
            hint=_hint(name),
        )
    build = _table(data, "build-system")
    requires = build.get("requires") or ["setuptools"]
    return Project(
        folder=folder.resolve(),
        name=name,
        table=table,
        plugins={str(key): str(value) for key, value in plugins.items()},
        tool=_table(data, "tool"),
        backend=str(build.get("build-backend") or "setuptools.build_meta").partition(".")[0],
        build_requirements=tuple(str(text) for text in requires),
    )


def _table(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = data.get(key)
    return found if isinstance(found, Mapping) else {}


def _hint(name: str) -> str:
    names = derive_names(normalize_name(name).removeprefix(PREFIX))
    return (
        f'a plugin says so with [project.entry-points.{GROUP}] and {names.plugin} = "{names.package}.plugin"'
    )
