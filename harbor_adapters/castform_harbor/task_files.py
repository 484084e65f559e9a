"""The files of a task: which stay inside, which are left out, and the digest of all."""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from castform.errors import UsageError

TASK_FILES = ("task.toml", "instruction.md", "README.md", "trajectory.json")
TASK_FOLDERS = ("environment", "tests", "solution", "steps")
IGNORE_FILE = ".harborignore"
COMPOSE_FILE = "docker-compose.yaml"
MAX_ENTRIES = 100_000
"""Files and folders of one task."""

_UNHASHED = ("__pycache__/", "*.pyc", ".DS_Store", "*.swp", "*.swo", "*~")
"""Left out of the digest, in gitignore's words, unless the task has a .gitignore of its own."""

LeavesOut = Callable[[Path], bool]


def check_inside(task: Path, leaves_out: LeavesOut) -> None:
    """Check that a task is files and folders, and no link leads out of it or in a circle.

    UsageError names what is not so.
    """
    root = task.resolve()
    entries = iter(range(MAX_ENTRIES))
    for name in (*TASK_FILES, *TASK_FOLDERS):
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

    Over every file of the task's own names, sorted: relative path, NUL, the file's SHA-256, newline.
    """
    rules = task / ".gitignore"
    unhashed = _read_unhashed(rules) if rules.is_file() else _make_unhashed(_UNHASHED)
    found = hashlib.sha256()
    for name in sorted(path.relative_to(task).as_posix() for path in _list_files(task, leaves_out)):
        if not unhashed.match_file(name):
            with (task / name).open("rb") as file:
                content = hashlib.file_digest(file, "sha256").hexdigest()
            found.update(f"{name}\0{content}\n".encode())
    return f"sha256:{found.hexdigest()}"


def _list_files(task: Path, leaves_out: LeavesOut) -> Iterator[Path]:
    for name in TASK_FILES:
        if (task / name).is_file():
            yield task / name
    for name in TASK_FOLDERS:
        if (task / name).is_dir():
            yield from _list_below(task / name, leaves_out)


def _list_below(folder: Path, leaves_out: LeavesOut) -> Iterator[Path]:
    for path in folder.iterdir():
        if leaves_out(path):
            continue
        if path.is_file():
            yield path
        elif path.is_dir() and not path.is_symlink():
            yield from _list_below(path, leaves_out)


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
    """Return whether a path below tests/ or solution/, of the task or of a step, is left out.

    .harborignore files have gitignore's rules: the last that matches decides, those of deeper
    folders come later, and nothing below a folder that is left out comes back. The files themselves
    are left out wherever they lie, and so is a link to what is left out.
    """
    specs: dict[Path, Any] = {}  # Any: pathspec's own type, imported when there are rules

    def read_rules(folder: Path) -> Any:
        if folder not in specs:
            specs[folder] = None
            file = folder / IGNORE_FILE
            if file.is_symlink() or (file.exists() and not file.is_file()):
                raise UsageError(f"{file} is no regular file")
            if file.exists():
                specs[folder] = _read_rules(file)
        return specs[folder]

    def leaves_out(path: Path) -> bool:
        if matches(path):
            return True
        if not path.is_symlink() and not any(above.is_symlink() for above in path.parents):
            return False
        try:
            resolved = path.resolve()
        except (OSError, RuntimeError):
            return False  # a circle, which is told elsewhere
        inside = task.resolve()
        return resolved.is_relative_to(inside) and matches(task / resolved.relative_to(inside))

    def matches(path: Path) -> bool:
        if path.name == IGNORE_FILE:
            return True
        root = _find_scope(path, task)
        if root is None:
            return False
        rules: list[tuple[Path, Any]] = []
        current = root
        for part in path.relative_to(root).parts:
            found = read_rules(current)
            if found is not None:
                rules.append((current, found))
            current = current / part
            ending = "/" if current != path or path.is_dir() else ""
            out = False
            for folder, spec in rules:
                include = spec.check_file(current.relative_to(folder).as_posix() + ending).include
                out = out if include is None else bool(include)
            if out:
                return True
        return False

    return leaves_out


def _make_unhashed(lines: Iterable[str]) -> Any:  # pathspec's own type
    """Rules as Harbor reads them for its hash: the last that matches decides, and no folder's rule is final."""
    from pathspec import PathSpec

    return PathSpec.from_lines("gitignore", lines)


def _read_unhashed(file: Path) -> Any:  # pathspec's own type
    try:
        return _make_unhashed(file.read_text(encoding="utf-8").splitlines())
    except (OSError, ValueError, re.error) as error:
        raise UsageError(f"{file} holds no rules as .gitignore has them: {error}") from error


def _read_rules(file: Path) -> Any:  # pathspec's own type
    from pathspec import GitIgnoreSpec

    try:
        return GitIgnoreSpec.from_lines(file.read_text(encoding="utf-8").splitlines())
    except (OSError, ValueError, re.error) as error:
        raise UsageError(f"{file} holds no rules as .gitignore has them: {error}") from error


def _is_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _find_scope(path: Path, task: Path) -> Path | None:
    """Return the tests or solution folder that a path lies in."""
    parts = path.relative_to(task).parts
    if parts and parts[0] in ("tests", "solution"):
        return task / parts[0]
    if len(parts) > 2 and parts[0] == "steps" and parts[2] in ("tests", "solution"):
        return task.joinpath(*parts[:3])
    return None
