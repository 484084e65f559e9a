"""A task's content: which files make it, and the hash that names it on every machine.

The hash is Harbor's own: over `relative path, NUL, SHA-256 of the file, newline` of every file, sorted.
"""

from __future__ import annotations

import hashlib
import os
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
DEFAULT_IGNORES = ("__pycache__/", "*.pyc", ".DS_Store", "*.swp", "*.swo", "*~")
IGNORE_FILE = ".harborignore"
_SCOPES = (("tests",), ("solution",), ("steps", None, "tests"), ("steps", None, "solution"))


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
    """Return the content hash of a task (64 hex digits). ValueError: a link leads out of it."""
    digest = hashlib.sha256()
    for path in list_task_files(folder):
        content = hashlib.sha256((folder / path).read_bytes()).hexdigest()
        digest.update(f"{path}\0{content}\n".encode())
    return digest.hexdigest()


def list_task_files(folder: Path) -> list[str]:
    """Return the files that count, as sorted POSIX paths: without those that .gitignore, or the usual
    litter patterns where there is none, and .harborignore leave out."""
    check_links(folder)
    found = [name for name in SINGLE_FILES if (folder / name).is_file()]
    left_out = _make_harbor_ignore(folder)
    for name in FOLDERS:
        if (folder / name).is_dir():
            found += [path.relative_to(folder).as_posix() for path in _walk(folder / name, left_out)]
    is_ignored = _make_git_ignore(folder)
    return sorted(path for path in found if not is_ignored(path))


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


def _walk(folder: Path, left_out: Callable[[Path], bool]) -> Iterator[Path]:
    if left_out(folder):
        return
    for path in sorted(folder.iterdir()):
        if left_out(path):
            continue
        if path.is_dir() and not path.is_symlink():
            yield from _walk(path, left_out)
        elif path.is_file():
            yield path


def _make_git_ignore(folder: Path) -> Callable[[str], bool]:
    file = folder / ".gitignore"
    if file.is_file():
        from pathspec import PathSpec  # as Harbor: the last rule that matches decides, no folder's is final

        spec = PathSpec.from_lines("gitignore", file.read_text(encoding="utf-8").splitlines())
        return spec.match_file
    return _is_litter


def _is_litter(path: str) -> bool:
    pure = PurePosixPath(path)
    endings = tuple(pattern[1:] for pattern in DEFAULT_IGNORES if pattern.startswith("*"))
    return (
        "__pycache__" in pure.parts[:-1]
        or ".DS_Store" in pure.parts
        or any(part.endswith(endings) for part in pure.parts)
    )


def _make_harbor_ignore(task: Path) -> Callable[[Path], bool]:
    """Rules hold in tests and solution folders; the last that matches decides, deeper files come later.

    The files of rules are left out wherever they lie, and so is a link to what is left out.
    """
    specs: dict[Path, GitIgnoreSpec | None] = {}

    def rules_of(folder: Path) -> GitIgnoreSpec | None:
        if folder not in specs:
            specs[folder] = _read_spec(folder / IGNORE_FILE)
        return specs[folder]

    def is_left_out(path: Path) -> bool:
        if matches(path):
            return True
        resolved = path.resolve()
        inside = task.resolve()
        return (
            resolved != inside / path.relative_to(task)
            and resolved.is_relative_to(inside)
            and matches(task / resolved.relative_to(inside))
        )

    def matches(path: Path) -> bool:
        if path.name == IGNORE_FILE:
            return True
        parts = path.relative_to(task).parts
        for count in range(1, len(parts) + 1):
            part = task.joinpath(*parts[:count])
            ending = "/" if count < len(parts) or path.is_dir() else ""
            excluded = False
            for depth in range(1, count):
                above = task.joinpath(*parts[:depth])
                spec = rules_of(above) if _is_in_scope(parts[:depth]) else None
                include = (
                    spec.check_file(part.relative_to(above).as_posix() + ending).include if spec else None
                )
                excluded = excluded if include is None else bool(include)
            if excluded:
                return True
        return False

    return is_left_out


def _is_in_scope(parts: tuple[str, ...]) -> bool:
    return any(
        len(parts) >= len(scope)
        and all(want in (None, part) for want, part in zip(scope, parts, strict=False))
        for scope in _SCOPES
    )


def _read_spec(file: Path) -> GitIgnoreSpec | None:
    if not file.is_file():
        return None
    from pathspec import GitIgnoreSpec

    return GitIgnoreSpec.from_lines(file.read_text(encoding="utf-8").splitlines())
