"""The files of a task: that they stay inside it, and copies without what is left out.

Which those are, and the hash over the others, `benchmax.envs.harbor.content` says.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from benchmax.envs.harbor import content
from castform.errors import UsageError

LeavesOut = content.LeavesOut
COMPOSE_FILE = "docker-compose.yaml"
MAX_ENTRIES = 100_000
"""Files and folders of one task."""


def check_inside(task: Path, leaves_out: LeavesOut) -> None:
    """Check that a task is files and folders, and no link leads out of it or in a circle.

    UsageError names what is not so.
    """
    root = task.resolve()
    entries = iter(range(MAX_ENTRIES))
    for name in (*content.SINGLE_FILES, *content.FOLDERS):
        if (task / name).exists() or (task / name).is_symlink():
            _check_path(task / name, root, frozenset(), leaves_out, entries)


def _check_path(
    path: Path, root: Path, above: frozenset[Path], leaves_out: LeavesOut, entries: Iterator[int]
) -> None:
    if leaves_out(path):
        return
    if next(entries, None) is None:
        raise UsageError(
            f"{root} holds more than {MAX_ENTRIES} files",
            hint="links to folders count as often as they are met",
        )
    try:
        resolved = path.resolve(strict=True)
    except (OSError, RuntimeError) as error:
        raise UsageError(f"{path} is a link that leads nowhere, or in a circle") from error
    if root not in resolved.parents:
        raise UsageError(f"{path} leads out of the task, to {resolved}", hint="a task carries its own files")
    if not path.is_dir():
        if not path.is_file():
            raise UsageError(f"{path} is no regular file")
        if not _is_utf8(path.name):
            raise UsageError(f"{str(path)!r} has a name that is no UTF-8")
        return
    if resolved in above:
        raise UsageError(f"{path} is a link in a circle")
    for child in sorted(path.iterdir()):
        _check_path(child, root, above | {resolved}, leaves_out, entries)


def hash_task(task: Path, leaves_out: LeavesOut) -> str:
    """Return the content digest that Harbor's lock.json has: `sha256:` and hex.

    UsageError: a file of ignore rules cannot be used.
    """
    try:
        return f"sha256:{content.hash_content(task, leaves_out)}"
    except ValueError as error:
        raise UsageError(str(error)) from error


def copy_selected(folder: Path, target: Path, leaves_out: LeavesOut, *, script: str) -> None:
    """Copy a tests or solution folder over `target`, without what is left out.

    Links become what they lead to: inside the task, which was checked. Everybody can read the copy,
    and run its `script`, whatever the modes are here.
    """
    shutil.copytree(
        folder,
        target,
        dirs_exist_ok=True,
        ignore=lambda parent, names: [name for name in names if leaves_out(Path(parent) / name)],
    )
    for path in [target, *target.rglob("*")]:
        runs = path.is_dir() or path == target / script
        path.chmod(path.stat().st_mode | (0o555 if runs else 0o444))


def make_ignore(task: Path) -> LeavesOut:
    """Return whether .harborignore files leave a path out, with UsageError for one that cannot be used."""
    matches = content.make_ignore(task)

    def leaves_out(path: Path) -> bool:
        try:
            return matches(path)
        except ValueError as error:
            raise UsageError(str(error)) from error

    return leaves_out


def _is_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
