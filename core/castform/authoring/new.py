"""Write a new plugin distribution from a template."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path

from castform import __version__
from castform.authoring.names import PluginNames, make_plugin_names
from castform.errors import UsageError

TEMPLATES: dict[str, str] = {
    "single": "Roman numerals to read: one question, one reply.",
    "tools": "Sums over the prices of a shop, looked up with tools.",
    "judge": "Small calculations with an explanation, which a judge scores.",
    "harness": "Word problems for an agent program of its own.",
}
"""Template to what its environment does, the summary of the plugin until its author has a better one."""
RENAMED = {"gitignore": ".gitignore"}
"""Files that would mean something where the templates lie."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NewPlugin:
    """A distribution that was written."""

    folder: Path
    names: PluginNames
    template: str
    files: tuple[str, ...]
    """Paths below the folder, sorted."""


def write_plugin(
    name: str, *, template: str = "single", directory: Path, installed: Iterable[str] = ()
) -> NewPlugin:
    """Write the folder `castform-env-NAME` below `directory`, whole or not at all.

    UsageError: the name cannot be used, the folder is there already, or `directory`
    cannot be written to.
    """
    names = make_plugin_names(name, installed=installed)
    folder = directory / names.distribution
    if os.path.lexists(folder):
        raise UsageError(f"{folder} is there already", hint="choose another name, or another --dir")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{names.distribution}-", dir=directory) as work:
            made = Path(work) / names.distribution
            made.mkdir()
            _write_files(made, template, _make_words(names, template))
            written = tuple(
                sorted(path.relative_to(made).as_posix() for path in made.rglob("*") if path.is_file())
            )
            made.rename(folder)
    except OSError as error:
        raise UsageError(
            f"cannot write {folder} ({error.strerror or error})", hint="--dir names another place"
        ) from error
    return NewPlugin(folder=folder, names=names, template=template, files=written)


def castform_range(version: str = __version__) -> str:
    """Return the range of castform that a plugin written with this version is promised to work with.

    What a release has, the next minor one has too, if only with a warning (docs/compatibility.md).
    """
    major, minor = (int(part) for part in version.split(".")[:2])
    return f">={major}.{minor},<{major}.{minor + 2}"


def _make_words(names: PluginNames, template: str) -> dict[str, str]:
    return {
        "PLUGIN_NAME": names.plugin,
        "PACKAGE_NAME": names.package,
        "DISTRIBUTION_NAME": names.distribution,
        "CASTFORM_RANGE": castform_range(),
        "SUMMARY": TEMPLATES[template],
    }


def _write_files(folder: Path, template: str, words: dict[str, str]) -> None:
    with as_file(files("castform.authoring") / "templates") as templates:
        for part in ("shared", template):
            for source in sorted((templates / part).rglob("*")):
                if source.is_dir() or "__pycache__" in source.parts:
                    continue
                place = source.relative_to(templates / part)
                target = folder / _fill(
                    place.with_name(RENAMED.get(place.name, place.name)).as_posix(), words
                )
                target.parent.mkdir(parents=True, exist_ok=True)
                if source.suffix == ".jsonl":
                    shutil.copyfile(source, target)
                else:
                    target.write_text(_fill(source.read_text(encoding="utf-8"), words), encoding="utf-8")


def _fill(text: str, words: dict[str, str]) -> str:
    for word, value in words.items():
        text = text.replace(word, value)
    return text
