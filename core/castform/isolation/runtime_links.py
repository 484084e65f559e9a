"""How a process in an isolated environment finds castform: by links to the packages that run here.

Worker and host are so never of different versions, and an edit of castform needs no new environment.
"""

from __future__ import annotations

import hashlib
import importlib
import os
from pathlib import Path

from castform.errors import MissingError, UsageError
from castform.isolation.store import isolated_folder

PACKAGES = ("benchmax", "castform")


def link_runtime() -> Path:
    """Return a folder with links to the running `benchmax` and `castform` and nothing else.

    UsageError when its path cannot be in a list of paths; MissingError as in `package_folders`.
    """
    places = package_folders()
    digest = hashlib.sha256("\n".join(map(str, places.values())).encode()).hexdigest()[:16]
    folder = Path(isolated_folder()) / "runtime" / digest
    if os.pathsep in str(folder):
        raise UsageError(
            f"{folder} has a {os.pathsep!r} in it, so no Python finds anything there",
            hint="set CASTFORM_HOME to another folder for isolated plugins",
        )
    folder.mkdir(parents=True, exist_ok=True)
    for name, place in places.items():
        link = folder / name
        if link.is_symlink() and link.readlink() == place:
            continue
        temporary = folder / f".{name}-{os.getpid()}"
        temporary.unlink(missing_ok=True)
        temporary.symlink_to(place)
        temporary.replace(link)
    return folder


def package_folders() -> dict[str, Path]:
    """Return where the running `benchmax` and `castform` lie. MissingError when one has no files."""
    folders: dict[str, Path] = {}
    for package in PACKAGES:
        file = importlib.import_module(package).__file__
        if file is None:
            raise MissingError(f"{package} has no files here", hint="install castform again")
        folders[package] = Path(file).resolve().parent
    return folders


def worker_environ(folder: Path) -> dict[str, str]:
    """Return the environment variables with which a process runs in an isolated environment.

    Its own programs come first on PATH; of PYTHONPATH only the links to castform are left.
    """
    path = f"{folder / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONHOME", "PYTHONSTARTUP")}
    return kept | {
        "PATH": path,
        "PYTHONPATH": str(link_runtime()),
        "PYTHONNOUSERSITE": "1",
        "VIRTUAL_ENV": str(folder),
    }
