"""Where tasks come from: a folder, a registry file or URL, repositories that a registry names."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import re
import tempfile
import tomllib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, TypeVar

from benchmax.envs.harbor.configs import DatasetConfig
from benchmax.envs.harbor.content import find_faults, is_task

RETRY_DELAYS_SECONDS = (1.0, 2.0)
"""Before the second and the third try."""
MAX_REGISTRY_BYTES = 64 << 20

_HASH_NAME = re.compile(r"[0-9a-f]{64}")
ResultT = TypeVar("ResultT")


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskSource:
    """One task before it is fetched."""

    name: str
    path: Path
    """Its folder; inside the repository where there is a git_url."""
    git_url: str | None = None
    git_commit_id: str | None = None
    digest: str | None = None
    """Content hash that a manifest gives (64 hex digits); the task must have it."""


async def find_tasks(
    config: DatasetConfig, base_dir: Path, *, disable_verification: bool
) -> tuple[list[TaskSource], str]:
    """Return the tasks of a dataset, filtered as its config says, and the dataset's name.

    ValueError: no such folder, registry or dataset, or no task in it.
    """
    if config.repo is not None:
        raise ValueError(
            f"datasets of the repository {config.repo!r} are not fetched here; clone it and give path="
        )
    if config.path is not None:
        folder = base_dir / config.path.expanduser()
        tasks = _find_in_folder(folder, base_dir, disable_verification=disable_verification)
        return _filter(config, tasks), folder.resolve().name
    rows, folder = await _read_registry(config, base_dir)
    return _filter(config, _find_in_registry(rows, config, folder)), str(config.name)


def _find_in_folder(folder: Path, base_dir: Path, *, disable_verification: bool) -> list[TaskSource]:
    if not folder.is_dir():
        error = ValueError(f"{folder} is no folder of Harbor tasks")
        error.add_note("name a task's folder, a folder of them or a registry.json")
        raise error
    if is_task(folder):
        found = [TaskSource(name=folder.resolve().name, path=folder)]
    else:
        digests = _read_manifest(folder / "dataset.toml")
        own_copies = folder.resolve() == (base_dir / "tasks").resolve()
        found = [
            TaskSource(name=path.name, path=path, digest=digests.get(path.name))
            for path in sorted(folder.iterdir())
            if is_task(path) and not (own_copies and _HASH_NAME.fullmatch(path.name))
        ]
    if not found:
        raise ValueError(f"{folder} holds no Harbor task: no folder in it has a task.toml")
    faults = [
        f"{task.path}: {', '.join(lacks)}"
        for task in found
        if (lacks := find_faults(task.path, disable_verification=disable_verification))
    ]
    if faults:
        error = ValueError("\n  ".join([f"{len(faults)} of {len(found)} tasks are not whole:", *faults]))
        error.add_note(f"`castform harbor lint {folder}` says what is wrong with each")
        raise error
    return found


def _read_manifest(path: Path) -> dict[str, str]:
    """Return content hashes by task name from a dataset.toml, where there is one."""
    if not path.is_file():
        return {}
    try:
        rows = tomllib.loads(path.read_text(encoding="utf-8")).get("tasks", [])
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} is no list of Harbor tasks: {error}") from error
    if not isinstance(rows, list):
        raise ValueError(f"{path} is no list of Harbor tasks: tasks is {rows!r}")
    return {
        str(row["name"]).rpartition("/")[2]: str(row["digest"]).removeprefix("sha256:")
        for row in rows
        if isinstance(row, dict) and row.get("name") and row.get("digest")
    }


async def _read_registry(config: DatasetConfig, base_dir: Path) -> tuple[list[Any], Path]:
    if config.registry_path is not None:
        path = base_dir / config.registry_path.expanduser()
        try:
            text = await asyncio.to_thread(path.read_text, encoding="utf-8")
        except OSError as error:
            raise ValueError(f"cannot read the registry {path}: {error.strerror}") from error
        return _parse_registry(text, str(path)), path.parent
    if config.registry_url is not None:
        text = await _retry(lambda: _fetch_text(str(config.registry_url)))
        return _parse_registry(text, config.registry_url), base_dir
    raise ValueError(
        f"dataset {config.name!r} needs registry_path or registry_url; one of Harbor's hub is fetched with "
        "`harbor dataset download` first and given by path="
    )


def _parse_registry(text: str, origin: str) -> list[Any]:
    try:
        rows = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{origin} is not JSON: {error}") from error
    if not isinstance(rows, list):
        raise ValueError(f"{origin} is no registry: a list of datasets")
    return rows


def _find_in_registry(rows: Sequence[Any], config: DatasetConfig, folder: Path) -> list[TaskSource]:
    named = [row for row in rows if isinstance(row, dict) and row.get("name") == config.name]
    wanted = config.version or config.ref
    matching = [row for row in named if wanted is None or str(row.get("version")) == wanted]
    if not matching:
        versions = ", ".join(str(row.get("version")) for row in named)
        known = versions or ", ".join(sorted({str(r.get("name")) for r in rows if isinstance(r, dict)}))
        raise ValueError(
            f"the registry has no dataset {config.name!r} {wanted or ''}; it has {known or 'none'}"
        )
    entries = matching[-1].get("tasks", [])
    if not isinstance(entries, list):
        raise ValueError(f"dataset {config.name!r} of the registry has no list of tasks: {entries!r}")
    return [_read_entry(row, folder) for row in entries]


def _read_entry(row: Any, folder: Path) -> TaskSource:
    if not isinstance(row, dict) or not isinstance(row.get("path"), str):
        raise ValueError(f"a task of the registry has no path: {row!r}")
    url, commit = row.get("git_url"), row.get("git_commit_id")
    path = Path(row["path"])
    if url is not None and (path.is_absolute() or ".." in path.parts or str(url).startswith("-")):
        raise ValueError(f"{row!r} leads out of its repository")
    name = str(row.get("name") or path.name)
    if url is None:
        return TaskSource(name=name, path=folder / path)
    return TaskSource(
        name=name, path=path, git_url=str(url), git_commit_id=None if commit is None else str(commit)
    )


def _filter(config: DatasetConfig, tasks: list[TaskSource]) -> list[TaskSource]:
    kept = tasks
    if config.task_names:
        kept = [task for task in kept if _matches(task.name, config.task_names)]
        if not kept:
            some = ", ".join(sorted(task.name for task in tasks)[:5])
            raise ValueError(f"no task is called {config.task_names}; there are {len(tasks)}: {some} …")
    if config.exclude_task_names:
        kept = [task for task in kept if not _matches(task.name, config.exclude_task_names)]
    return kept[: config.n_tasks]


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch(name, pattern) or fnmatch(name.rpartition("/")[2], pattern) for pattern in patterns)


async def fetch_tasks(
    tasks: Sequence[TaskSource], download_dir: Path, *, overwrite: bool = False
) -> list[Path]:
    """Return the folder of each task, after its repository was fetched where it has one.

    Each commit is fetched once and kept. Fetching is tried three times, 1 and 2 seconds apart.
    """
    commits = dict.fromkeys((task.git_url, task.git_commit_id) for task in tasks if task.git_url is not None)
    if commits:
        await _retry(lambda: _fetch_all(list(commits), download_dir, overwrite=overwrite))
    return [
        task.path
        if task.git_url is None
        else _place(download_dir, task.git_url, task.git_commit_id) / task.path
        for task in tasks
    ]


async def _retry(work: Callable[[], Awaitable[ResultT]]) -> ResultT:
    """Do it again after an ExceptionGroup: the form in which fetching fails."""
    for delay in RETRY_DELAYS_SECONDS:
        with contextlib.suppress(ExceptionGroup):
            return await work()
        await asyncio.sleep(delay)
    return await work()


async def _fetch_all(
    commits: Sequence[tuple[str | None, str | None]], folder: Path, *, overwrite: bool
) -> None:
    results = await asyncio.gather(
        *(_fetch(str(url), commit, folder, overwrite=overwrite) for url, commit in commits),
        return_exceptions=True,
    )
    failures = [result for result in results if isinstance(result, Exception)]
    if failures:
        raise ExceptionGroup("repositories of tasks could not be fetched", failures)


async def _fetch(url: str, commit: str | None, folder: Path, *, overwrite: bool) -> None:
    """Fetch a commit to its place. It appears whole or not at all, whoever fetches it at the same time."""
    place = _place(folder, url, commit)
    if place.exists() and not overwrite:
        return
    await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".fetch-") as made:
        fresh = Path(made) / "repository"
        await asyncio.to_thread(fresh.mkdir)
        await _run_git(fresh, "init", "--quiet")
        await _run_git(fresh, "fetch", "--quiet", "--depth", "1", "--", url, commit or "HEAD")
        await _run_git(fresh, "checkout", "--quiet", "--force", "FETCH_HEAD")
        await asyncio.to_thread(_put_in_place, fresh, place, Path(made) / "former", overwrite=overwrite)


def _put_in_place(fresh: Path, place: Path, former: Path, *, overwrite: bool) -> None:
    if overwrite:
        with contextlib.suppress(FileNotFoundError):
            place.rename(former)
    try:
        fresh.rename(place)
    except OSError:
        if not place.exists():  # else another process was first, with the same commit
            raise


async def _run_git(folder: Path, *words: str) -> None:
    process = await asyncio.create_subprocess_exec(
        "git",
        *words,
        cwd=folder,
        env={**os.environ, "GIT_TERMINAL_PROMPT": "0"},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        _, errors = await process.communicate()
    except asyncio.CancelledError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        raise
    if process.returncode:
        raise RuntimeError(f"git {words[0]} failed: {errors.decode('utf-8', 'replace').strip()[-500:]}")


def _place(folder: Path, url: str, commit: str | None) -> Path:
    return folder / hashlib.sha256(f"{url}\0{commit or ''}".encode()).hexdigest()[:20]


async def _fetch_text(url: str) -> str:
    import httpx

    try:
        async with httpx.AsyncClient(timeout=60, follow_redirects=True) as client:
            answer = await client.get(url)
            answer.raise_for_status()
    except httpx.HTTPError as error:
        raise ExceptionGroup("the registry could not be fetched", [error]) from error
    if len(answer.content) > MAX_REGISTRY_BYTES:
        raise ValueError(f"the registry at {url} is larger than {MAX_REGISTRY_BYTES >> 20} MiB")
    return answer.text
