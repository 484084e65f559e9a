"""A task's content: which files make it, and the hash that names it on every machine.

The hash is Harbor's own: over `relative path, NUL, SHA-256 of the file, newline` of every file, sorted.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

SINGLE_FILES = ("task.toml", "instruction.md", "README.md", "trajectory.json")
FOLDERS = ("environment", "tests", "solution", "steps")
IGNORE_FILE = ".harborignore"
_LITTER_ENDINGS = (".pyc", ".swp", ".swo", "~")

LeavesOut = Callable[[Path], bool]


def is_task(folder: Path) -> bool:
    """Say whether a folder says of itself that it is a task."""
    return (folder / "task.toml").is_file()


def find_faults(folder: Path, *, disable_verification: bool = False) -> list[str]:
    """Return what a task lacks: its instruction, or a verifier unless none is wanted."""
    faults = []
    steps = (folder / "steps").is_dir()
    if not steps and not (folder / "instruction.md").is_file():
        faults.append("no instruction.md")
    if not steps and not disable_verification and not _has_verifier(folder):
        faults.append("no tests/test.sh")
    return faults


def _has_verifier(folder: Path) -> bool:
    if any((folder / "tests" / name).is_file() for name in _TEST_FILES):
        return True
    try:
        verifier = tomllib.loads((folder / "task.toml").read_text(encoding="utf-8")).get("verifier", {})
    except ValueError as error:
        raise ValueError(f"{folder / 'task.toml'} is not valid TOML: {error}") from error
    return bool(isinstance(verifier, dict) and verifier.get("environment"))


_TEST_FILES = ("test.sh", "test.bat", "Dockerfile", "docker-compose.yaml")
"""One of them makes a verifier; the last two are images of its own with the tests inside."""


def hash_task(folder: Path) -> str:
    """Return the content hash of a task (64 hex digits).

    ValueError: a link leads out of it, or a file of ignore rules cannot be used.
    """
    check_links(folder)
    return hash_content(folder)


def hash_content(folder: Path, leaves_out: LeavesOut | None = None) -> str:
    """Return the content hash of a task whose links were checked. `leaves_out`: its make_ignore, made before."""
    found = hashlib.sha256()
    for path in list_task_files(folder, leaves_out):
        with (folder / path).open("rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
        found.update(f"{path}\0{content}\n".encode())
    return found.hexdigest()


def list_task_files(folder: Path, leaves_out: LeavesOut | None = None) -> list[str]:
    """Return the files that count, as sorted POSIX paths: without those that .gitignore, or the usual
    litter patterns where there is none, and .harborignore leave out."""
    leaves_out = leaves_out or make_ignore(folder)
    found = [folder / name for name in SINGLE_FILES if (folder / name).is_file()]
    for name in FOLDERS:
        if (folder / name).is_dir() and not leaves_out(folder / name):
            found += _list_below(folder / name, leaves_out)
    is_unhashed = _make_git_ignore(folder)
    names = sorted(path.relative_to(folder).as_posix() for path in found)
    return [name for name in names if not is_unhashed(name)]


def copy_snapshot(source: Path, target: Path, content_hash: str) -> None:
    """Copy a task to `target`, unless it is there already, and check that the copy has this hash.

    The copy appears whole or not at all. ValueError: the task changed meanwhile, or the copy is damaged.
    """
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".copy-") as made:
            fresh = Path(made) / "task"
            shutil.copytree(
                source, fresh, symlinks=True, ignore=shutil.ignore_patterns(".git", "__pycache__")
            )
            _check_hash(fresh, content_hash, source)
            try:
                fresh.rename(target)
            except OSError:
                if not target.exists():  # else another process was first, with the same content
                    raise
    _check_hash(target, content_hash, source)


def check_links(folder: Path) -> None:
    """ValueError when a link under the folder leads out of it or nowhere."""
    root = folder.resolve()
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(parent) / name
            if path.is_symlink() and not (path.exists() and path.resolve().is_relative_to(root)):
                raise ValueError(f"{path} is a link that leads out of the task, or nowhere")


def _check_hash(folder: Path, wanted: str, source: Path) -> None:
    if hash_task(folder) != wanted:
        raise ValueError(f"{folder} does not hold the content {wanted} of {source}; remove it and try again")


def _list_below(folder: Path, leaves_out: LeavesOut) -> Iterator[Path]:
    for path in folder.iterdir():
        if leaves_out(path):
            continue
        if path.is_file():
            yield path
        elif path.is_dir() and not path.is_symlink():
            yield from _list_below(path, leaves_out)


def make_ignore(task: Path) -> LeavesOut:
    """Return whether a path below tests/ or solution/, of the task or of a step, is left out.

    .harborignore files have gitignore's rules: the last that matches decides, those of deeper
    folders come later, and nothing below a folder that is left out comes back. The files themselves
    are left out wherever they lie, and so is a link to what is left out. What it returns raises
    ValueError for a file of rules that cannot be used.
    """
    specs: dict[Path, GitIgnoreSpec | None] = {}

    def read_rules(folder: Path) -> GitIgnoreSpec | None:
        if folder not in specs:
            file = folder / IGNORE_FILE
            if file.is_symlink() or (file.exists() and not file.is_file()):
                raise ValueError(f"{file} is no regular file")
            specs[folder] = _read_rules(file) if file.exists() else None
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
        rules: list[tuple[Path, GitIgnoreSpec]] = []
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


def _find_scope(path: Path, task: Path) -> Path | None:
    """Return the tests or solution folder that a path lies in."""
    parts = path.relative_to(task).parts
    if parts and parts[0] in ("tests", "solution"):
        return task / parts[0]
    if len(parts) > 2 and parts[0] == "steps" and parts[2] in ("tests", "solution"):
        return task.joinpath(*parts[:3])
    return None


def _read_rules(file: Path) -> GitIgnoreSpec:
    from pathspec import GitIgnoreSpec

    try:
        return GitIgnoreSpec.from_lines(file.read_text(encoding="utf-8").splitlines())
    except (OSError, ValueError, re.error) as error:
        raise ValueError(f"{file} holds no rules as .gitignore has them: {error}") from error


def _make_git_ignore(folder: Path) -> Callable[[str], bool]:
    """Return whether the hash leaves a path out, by the task's own .gitignore or the usual patterns."""
    file = folder / ".gitignore"
    if not file.is_file():
        return _is_litter
    from pathspec import PathSpec  # as Harbor: the last rule that matches decides, no folder's is final

    try:
        return PathSpec.from_lines("gitignore", file.read_text(encoding="utf-8").splitlines()).match_file
    except (OSError, ValueError, re.error) as error:
        raise ValueError(f"{file} holds no rules as .gitignore has them: {error}") from error


def _is_litter(path: str) -> bool:
    """Say whether gitignore's patterns `__pycache__/ *.pyc .DS_Store *.swp *.swo *~` match a file's path."""
    pure = PurePosixPath(path)
    return (
        "__pycache__" in pure.parts[:-1]
        or ".DS_Store" in pure.parts
        or any(part.endswith(_LITTER_ENDINGS) for part in pure.parts)
    )
