"""The Python that the first process of a box runs in: this one, bound at a place of its own.

It is on no PATH, has no packages, and is named so that no `pkill python` finds it.
"""

from __future__ import annotations

import contextlib
import functools
import py_compile
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

HOME = "/dev/castform"
"""In the box: below a mount that lies at its top and is read-only. A folder with mounts below it can be renamed,
and then whatever is put in its place is what the first process would import."""
PROGRAM = f"{HOME}/runtime/bin/castform-init"
START = "import sys; sys.path.append('{home}/code'); from castform_sandbox_bubblewrap.inside.init import main; main({descriptor})"


@dataclass(frozen=True, kw_only=True, slots=True)
class Interpreter:
    """What of this Python is bound into a box, by its place there."""

    binds: tuple[tuple[str, str, str], ...]
    """Name, path on the host, path in the box."""
    masks: tuple[str, ...]
    """Folders in the box that are covered by empty ones."""
    libraries: str | None
    """A folder in the box for LD_LIBRARY_PATH."""


@functools.cache
def find_interpreter() -> Interpreter:
    """Say how the running interpreter comes into a box. A virtual environment counts as its base."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    base = Path(sys.base_prefix).resolve()
    executable = Path(getattr(sys, "_base_executable", "") or sys.executable).resolve()
    libraries = sys.platlibdir
    standard = Path(sysconfig.get_path("stdlib")).resolve()
    target = f"{HOME}/runtime/{libraries}"
    program = ("python", str(executable), PROGRAM)
    _compile(Path(__file__).parent / "inside")
    code = ("code", str(Path(__file__).parent / "inside"), f"{HOME}/code/castform_sandbox_bubblewrap/inside")
    if base.is_relative_to("/usr"):  # whose libraries the box has anyway
        binds = (program, ("standard", str(standard), f"{target}/{version}"), code)
        return Interpreter(binds=binds, masks=(), libraries=None)
    binds = (program, ("standard", str(base / libraries), target), code)
    packages = [f"{target}/{version}/{name}" for name in ("site-packages",) if (standard / name).is_dir()]
    shared = bool(sysconfig.get_config_var("Py_ENABLE_SHARED"))
    return Interpreter(binds=binds, masks=tuple(packages), libraries=target if shared else None)


def _compile(folder: Path) -> None:
    """Leave compiled files where boxes find them; a folder that is not ours to write is compiled at every start."""
    for source in folder.glob("*.py"):
        with contextlib.suppress(OSError, py_compile.PyCompileError):
            py_compile.compile(str(source), invalidation_mode=py_compile.PycInvalidationMode.TIMESTAMP)
