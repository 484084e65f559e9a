"""A Python environment for each set of dependencies, built once and used by every bundle that has them."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import json
import re
import shutil
import sys
import tempfile
import venv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from castform.bundles.bounded_process import environ_without_python, run_bounded
from castform.bundles.runtime_links import runtime_entries, runtime_versions
from castform.errors import MissingError, RunFailedError, UsageError

INSTALL_TIMEOUT_SECONDS = 900.0
_FORMAT = 1
_READY = "castform-ready.json"
_RUNTIME = "castform-runtime"


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnVenv:
    """A Python environment that holds the runtime, the declared dependencies and nothing else."""

    folder: Path
    python: Path
    was_built: bool
    """False: it was there."""


def prepare_venv(
    dependencies: Sequence[str],
    *,
    home: Path,
    on_stage: Callable[[str], None] = lambda _: None,
    timeout_seconds: float = INSTALL_TIMEOUT_SECONDS,
) -> OwnVenv:
    """Return the environment for these dependencies, building it when there is none yet.

    It lies below `home` under a name made of this Python, the runtime's versions and the
    dependencies. Two processes that want the same one wait for each other. MissingError
    when pip cannot install something, UsageError when `home` cannot be written.
    """
    entries = runtime_entries()
    folder = home / "bundle-envs" / _name(dependencies, entries)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _lock(folder.with_name(f"{folder.name}.lock")):
            built = not ((folder / _READY).is_file() and (folder / "bin" / "python").exists())
            if built:
                on_stage("building a Python environment" + (" with pip" if dependencies else ""))
                _build(folder, dependencies, entries, timeout_seconds)
    except OSError as error:
        raise UsageError(
            f"cannot build a Python environment in {folder.parent} ({error.strerror or error})",
            hint="set CASTFORM_HOME to a folder that you can write",
        ) from error
    return OwnVenv(folder=folder, python=folder / "bin" / "python", was_built=built)


def _name(dependencies: Sequence[str], entries: dict[str, Path]) -> str:
    content = {
        "format": _FORMAT,
        "python": [sys.version, str(Path(getattr(sys, "_base_executable", sys.executable)).resolve())],
        "dependencies": sorted(dependencies),
        "runtime": runtime_versions(),
        "places": {name: str(place) for name, place in sorted(entries.items())},
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:24]


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[None]:
    with path.open("w", encoding="utf-8") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _build(
    folder: Path, dependencies: Sequence[str], entries: dict[str, Path], timeout_seconds: float
) -> None:
    if folder.exists():
        shutil.rmtree(folder)  # a build that did not come to its end
    has_pip = importlib.util.find_spec("pip") is not None
    venv.EnvBuilder(symlinks=True, with_pip=bool(dependencies) and not has_pip).create(folder)
    runtime = folder / _RUNTIME
    runtime.mkdir()
    for name, place in entries.items():
        (runtime / name).symlink_to(place)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    pth = folder / "lib" / version / "site-packages" / f"{_RUNTIME}.pth"
    pth.write_text(f"{runtime}\n", encoding="utf-8")
    if dependencies:
        _install(folder, dependencies, has_pip=has_pip, timeout_seconds=timeout_seconds)
    (folder / _READY).write_text(json.dumps({"dependencies": list(dependencies)}), encoding="utf-8")


def _install(folder: Path, dependencies: Sequence[str], *, has_pip: bool, timeout_seconds: float) -> None:
    python = str(folder / "bin" / "python")
    pip = [sys.executable, "-m", "pip", "--python", python] if has_pip else [python, "-m", "pip"]
    with tempfile.TemporaryDirectory() as work:
        wanted = Path(work) / "requirements.txt"  # not on the command line, where others would see it
        wanted.write_text("".join(f"{text}\n" for text in dependencies), encoding="utf-8")
        done = run_bounded(
            [*pip, "install", "--no-input", "--disable-pip-version-check", "--quiet", "-r", str(wanted)],
            cwd=Path(work),
            env=environ_without_python(),
            timeout_seconds=timeout_seconds,
        )
    if done.ending != "exit":
        raise RunFailedError(f"installing the bundle's dependencies: pip {done.describe()}")
    if done.code != 0:
        raise MissingError(
            f"pip cannot install the bundle's dependencies: {_reason(done.output)}",
            hint="check names and versions, and that the package index can be reached",
        )


def _reason(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR")] or lines[-1:]
    return hide_passwords("; ".join(errors[:3])) or "it says nothing"


def hide_passwords(text: str) -> str:
    """Return text with the user and password of every URL in it left out."""
    return re.sub(r"(\w://)[^/\s@]+@", r"\1***@", text)
