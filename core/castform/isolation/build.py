"""Build the virtual environment of a lock: in a folder of its own, moved to its name when it is whole."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

from castform.errors import MissingError, RunFailedError
from castform.isolation.installers import Sources, run_pip, run_uv
from castform.isolation.lock import Lock
from castform.isolation.runtime_links import worker_environ
from castform.isolation.store import LOCK_FILE

DESCRIBE_TIMEOUT_SECONDS = 300.0
_MOST_SCRIPT_BYTES = 1 << 20
_TAIL_CHARACTERS = 2000


def build_environment(
    lock: Lock,
    folder: Path,
    *,
    sources: Sources,
    finish: Callable[[Path], None],
    on_stage: Callable[[str], None] = lambda _: None,
) -> None:
    """Build the environment of a lock at `folder`; `finish` completes it before it gets its name.

    The caller holds the lock of the distribution. What stands at `folder` is replaced. Nothing is left
    behind when something raises; after a crash there is a folder whose name begins with a dot, which
    nothing reads and the next build removes.
    """
    # No distribution's name in normal form has the line: what others are building stays.
    prefix = f".{folder.name.rpartition('-')[0]}_"
    for left in folder.parent.glob(f"{prefix}*"):
        shutil.rmtree(left, ignore_errors=True)
    place = Path(tempfile.mkdtemp(prefix=prefix, dir=folder.parent))
    try:
        on_stage(f"building {folder.name}: {len(lock.items)} distributions with {lock.resolver}")
        venv.EnvBuilder(symlinks=True, with_pip=False).create(place)
        _install(lock, place, sources)
        (place / LOCK_FILE).write_text(lock.text(), encoding="utf-8")
        finish(place)
        _rename_inside(place, folder)
        if folder.exists():
            folder.rename(Path(tempfile.mkdtemp(prefix=prefix, dir=folder.parent)) / "replaced")
        place.chmod(0o755)
        place.rename(folder)
    finally:
        for left in folder.parent.glob(f"{prefix}*"):
            shutil.rmtree(left, ignore_errors=True)


def save_locked(lock: Lock, folder: Path, sources: Sources) -> None:
    """Put every file of a lock into a folder, except castform's own, which needs none.

    Uses pip. Raises MissingError when it is not here or something cannot be had.
    """
    if importlib.util.find_spec("pip") is None:
        raise MissingError("saving wheels needs pip", hint=f"{sys.executable} -m ensurepip")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        wanted = Path(work) / "lock.txt"
        items = [item for item in lock.items if item.name != "castform"]
        wanted.write_text("".join(f"{item.line()}\n" for item in items), encoding="utf-8")
        words = ["download", "--no-deps", "--require-hashes", "--dest", str(folder), *sources.options()]
        run_pip([*words, "-r", str(wanted)], doing=f"saving wheels in {folder}")


def describe_plugins(folder: Path, distribution: str) -> dict[str, Any]:
    """Load a distribution's plugins in its environment and return what they register.

    The answer has `distribution` (name, version, summary, requirements, metadata) and `plugins`. Raises
    RunFailedError with the end of what was written when they cannot be loaded there.
    """
    try:
        done = subprocess.run(
            [str(folder / "bin" / "python"), "-P", "-m", "castform.isolation.describe", distribution],
            cwd=folder,
            env=worker_environ(folder),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=DESCRIBE_TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise RunFailedError(
            f"the plugin of {distribution} did not load within {DESCRIBE_TIMEOUT_SECONDS:g} s",
            hint="nothing was installed; a plugin's module should hold hooks and strings alone",
        ) from error
    if done.returncode != 0 or not done.stdout.strip():
        told = done.stderr.strip()[-_TAIL_CHARACTERS:]
        raise RunFailedError(
            f"the plugin of {distribution} cannot be loaded in its environment: {told.splitlines()[-1] if told else 'it says nothing'}",
            hint="nothing was installed; the plugin's own requirements may lack something",
        )
    return dict(json.loads(done.stdout.splitlines()[-1]))


def _install(lock: Lock, place: Path, sources: Sources) -> None:
    wanted = place / "wanted.txt"
    wanted.write_text(lock.text(), encoding="utf-8")
    python = place / "bin" / "python"
    words = ["--no-deps", "--require-hashes", *sources.options(), "-r", str(wanted)]
    doing = f"installing {len(lock.items)} distributions"
    if lock.resolver == "uv":
        run_uv(["pip", "install", "--compile-bytecode", "--python", str(python), *words], doing=doing)
    else:
        run_pip(["install", *words], doing=doing, python=python)
    wanted.unlink()


def _rename_inside(place: Path, folder: Path) -> None:
    """Write the folder's last name into the scripts and settings that hold its first."""
    before, after = str(place).encode(), str(folder).encode()
    for file in [place / "pyvenv.cfg", *(place / "bin").iterdir()]:
        if file.is_symlink() or not file.is_file() or file.stat().st_size > _MOST_SCRIPT_BYTES:
            continue
        content = file.read_bytes()
        if before in content and b"\0" not in content:
            file.write_bytes(content.replace(before, after))
