"""The real harbor: where it is installed, and how it gets there. It needs Python 3.12 and a place of its own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from castform.errors import MissingError, RunFailedError
from castform.home import castform_home

VARIABLE = "CASTFORM_HARBOR"
"""Environment variable with the path of a `harbor` command, or of a virtual environment that has one."""
OLDEST_PYTHON = (3, 12)
REQUIREMENT = "harbor>=0.25"
_PROBE = (
    "import json, sys, importlib.metadata as m; "
    "print(json.dumps([m.version('harbor'), list(sys.version_info[:2])]))"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class RealHarbor:
    """An installed harbor."""

    command: Path
    """Its `harbor` program."""
    python: Path
    """The interpreter beside it."""


def harbor_folder() -> Path:
    """Return where castform installs harbor."""
    return castform_home() / "harbor-venv"


def find_real_harbor() -> RealHarbor:
    """Return the harbor that CASTFORM_HARBOR names, or the one that castform installed, or one on PATH.

    MissingError: there is none, with how to get it.
    """
    named = os.environ.get(VARIABLE)
    for place in [Path(named)] if named else [harbor_folder(), *_on_path()]:
        found = _look_at(place)
        if found is not None:
            return found
    where = f"{VARIABLE} is {named}, which has none" if named else "it is not installed"
    raise MissingError(
        f"the real harbor is needed and {where}",
        hint="`castform harbor install` makes a virtual environment for it (Python 3.12, about 470 MB)",
    )


def make_real_harbor(folder: Path | None = None, *, python: Path | None = None) -> RealHarbor:
    """Make a virtual environment with harbor in it, unless it is there. Takes minutes.

    MissingError: no Python of 3.12 or newer; RunFailedError: pip failed, with the end of its output.
    """
    folder = folder or harbor_folder()
    found = _look_at(folder)
    if found is not None:
        return found
    interpreter = python or find_python()
    _run([str(interpreter), "-m", "venv", "--clear", str(folder)])
    _run([str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", REQUIREMENT])
    found = _look_at(folder)
    if found is None:
        raise RunFailedError(f"pip installed {REQUIREMENT} into {folder}, but there is no harbor command")
    return found


def find_python() -> Path:
    """Return a Python of 3.12 or newer: this one, one on PATH, or one of pyenv's. MissingError: none."""
    if sys.version_info[:2] >= OLDEST_PYTHON:
        return Path(sys.executable)
    for path in _list_pythons():
        with contextlib.suppress(OSError, subprocess.SubprocessError, ValueError):
            code = "import sys; print(*sys.version_info[:2])"
            done = subprocess.run([path, "-c", code], capture_output=True, text=True, timeout=20, check=True)
            if tuple(map(int, done.stdout.split())) >= OLDEST_PYTHON:
                return path
    raise MissingError(
        "harbor needs Python 3.12 or newer, and none was found", hint="install one, or name it with --python"
    )


async def read_version(harbor: RealHarbor) -> str:
    """Return harbor's version. RunFailedError when its environment is broken."""
    process = await asyncio.create_subprocess_exec(
        harbor.python, "-c", _PROBE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    output, errors = await process.communicate()
    if process.returncode:
        raise RunFailedError(
            f"{harbor.python} has no working harbor: {errors.decode('utf-8', 'replace')[-300:]}"
        )
    return str(json.loads(output)[0])


def _look_at(place: Path) -> RealHarbor | None:
    command = place / "bin" / "harbor" if place.is_dir() else place
    python = command.parent / "python"
    if not command.is_file() or not os.access(command, os.X_OK) or not python.exists():
        return None
    return RealHarbor(command=command.absolute(), python=python.absolute())


def _on_path() -> Iterator[Path]:
    found = shutil.which("harbor")
    if found is not None:
        yield Path(found).resolve()


def _list_pythons() -> Iterator[Path]:
    for name in ("python3.13", "python3.12"):
        found = shutil.which(name)
        if found is not None:
            yield Path(found)
    yield from sorted(Path("~/.pyenv/versions").expanduser().glob("3.1[2-9]*/bin/python"), reverse=True)


def _run(words: list[str]) -> None:
    done = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    if done.returncode:
        raise RunFailedError(f"`{' '.join(words)}` failed:\n{(done.stdout + done.stderr).strip()[-2000:]}")
