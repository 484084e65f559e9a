"""Build a plugin's sdist, and its wheel from the sdist, without touching its source folder."""

from __future__ import annotations

import importlib.util
import shutil
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from castform.authoring.build_faults import explain_build
from castform.authoring.project import Project
from castform.authoring.report import CheckRow, fails, passes, unchecked
from castform.bundles.bounded_process import environ_without_python, run_bounded
from castform.errors import MissingError

BUILD_TIMEOUT_SECONDS = 600.0
IGNORE_FILES = (".gitignore", ".hgignore")
"""Build backends leave out what these name, those of the folders above too."""
_LEFTOVERS = {
    ".git",
    ".hg",
    ".venv",
    ".tox",
    ".nox",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
    ".hypothesis",
    "__pycache__",
    "node_modules",
}
_BUILT = {"build", "dist"}
"""At the top: below it a package may have the name."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Built:
    """What building came to."""

    rows: tuple[CheckRow, ...]
    source: Path
    """A copy of the source folder as it was built."""
    sdist: Path | None = None
    wheel: Path | None = None


def build_plugin(project: Project, work: Path) -> Built:
    """Build in copies below `work`. MissingError when the package `build` is not installed.

    Without build isolation where this Python has what the project's build needs, which is
    quicker and needs no network; else in the isolation that pip would build it in.
    """
    if importlib.util.find_spec("build") is None:
        raise MissingError("the package `build` is not installed", hint="pip install 'castform[test]'")
    source = copy_source(project.folder, work / "source")
    sdist, row = _build(project, source, "sdist", work / "sdist", ["--sdist"])
    if sdist is None:
        return Built(rows=(row, unchecked("wheel", "there is no sdist to build it from")), source=source)
    unpacked = unpack_sdist(sdist, work / "unpacked")
    wheel, wheel_row = _build(project, unpacked, "wheel", work / "wheel", ["--wheel"])
    return Built(rows=(row, wheel_row), source=source, sdist=sdist, wheel=wheel)


def copy_source(folder: Path, target: Path) -> Path:
    """Copy a source folder without caches and earlier builds; return the copy.

    It lies as deep below `target` as the folder does below its repository, with the ignore
    files of the folders between and a mark where the repository begins: a backend that
    looks for them finds the same ones.
    """
    root = next((place for place in (folder, *folder.parents) if (place / ".git").exists()), folder)
    place = target
    for above in (root, *reversed([p for p in folder.parents if root in p.parents])):
        place = target / above.relative_to(root)
        place.mkdir(parents=True, exist_ok=True)
        for name in IGNORE_FILES:
            if above != folder and (above / name).is_file():
                shutil.copyfile(above / name, place / name)
    copy = target / folder.relative_to(root)

    def ignore(place: str, names: list[str]) -> set[str]:
        return _list_leftovers(Path(place), names, is_top=Path(place) == folder)

    shutil.copytree(folder, copy, ignore=ignore, symlinks=True, dirs_exist_ok=True)
    (target / ".git").mkdir(exist_ok=True)
    return copy


def _list_leftovers(folder: Path, names: list[str], *, is_top: bool) -> set[str]:
    return {
        name
        for name in names
        if name in _LEFTOVERS
        or (is_top and name in _BUILT)
        or name.endswith((".egg-info", ".pyc"))
        or (folder / name / "pyvenv.cfg").is_file()
    }


def _build(
    project: Project, source: Path, what: str, out: Path, words: list[str]
) -> tuple[Path | None, CheckRow]:
    isolation = [] if _find_missing(project) else ["--no-isolation"]
    done = run_bounded(
        [sys.executable, "-P", "-m", "build", *words, *isolation, "--outdir", str(out), str(source)],
        cwd=source,
        env=_environ(project),
        timeout_seconds=BUILD_TIMEOUT_SECONDS,
    )
    found = sorted(out.glob("*.tar.gz" if what == "sdist" else "*.whl")) if out.is_dir() else []
    if done.ending == "exit" and done.code == 0 and found:
        return found[0], passes(what, found[0].name)
    fault = explain_build(done.output)
    told = f"the build {done.describe()}" + (f": {fault.cause}" if fault.cause else "")
    return None, fails(what, told, hint=fault.hint, details=fault.details)


def _find_missing(project: Project) -> list[str]:
    """Return what the build needs and this Python lacks."""
    from build import check_dependency

    return [text for text in project.build_requirements if any(True for _ in check_dependency(text))]


def _environ(project: Project) -> dict[str, str]:
    environ = environ_without_python()
    if "version" in (project.table.get("dynamic") or ()):
        environ.setdefault("SETUPTOOLS_SCM_PRETEND_VERSION", "0.0.0")  # a copy has no history to read it from
    return environ


def unpack_sdist(sdist: Path, target: Path) -> Path:
    """Unpack an sdist that was just built here; return the one folder in it."""
    # Python 3.11 knows filters from 3.11.4 on.
    safely: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
    with tarfile.open(sdist) as archive:
        archive.extractall(target, **safely)
    (folder,) = target.iterdir()
    return folder
