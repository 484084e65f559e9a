"""Several tasks at once: a folder of task folders, one task, or a registry.json with local tasks."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Iterator
from pathlib import Path

from castform.errors import CastformError, UsageError
from castform_harbor.task import HarborTask, load_task

TASK_FILE = "task.toml"


def load_tasks(source: Path | str, *, dataset: str | None = None) -> list[HarborTask]:
    """Read every task of a source, in the order of their folders' names.

    The source is a task's folder, a folder of them (a dataset.toml in it pins their content), or a
    registry file, of which `dataset` (`name` or `name@version`) chooses one where it has several.
    UsageError lists every task that cannot be used: all of them are sound or none is returned.
    """
    tasks, faults = load_usable_tasks(source, dataset=dataset)
    if faults:
        raise UsageError(
            f"{len(faults)} of {len(tasks) + len(faults)} tasks cannot be used:"
            + "".join(f"\n  {fault}" for fault in faults.values())
        )
    return tasks


def load_usable_tasks(
    source: Path | str, *, dataset: str | None = None
) -> tuple[list[HarborTask], dict[str, str]]:
    """Return the tasks that are sound, and by folder what is wrong with the others."""
    path = Path(source).expanduser()
    try:
        is_there = path.exists()
    except OSError as error:
        raise UsageError(f"{path} cannot be looked at: {error.strerror}") from error
    if not is_there:
        raise UsageError(
            f"there is no {path}", hint="name a task's folder, a folder of tasks or a registry.json"
        )
    folders = _list_folders(path, dataset)
    if not folders:
        raise UsageError(f"{path} holds no Harbor task: no folder in it has a task.toml")
    tasks: list[HarborTask] = []
    faults: dict[str, str] = {}
    for folder in folders:
        try:
            tasks.append(load_task(folder))
        except CastformError as error:
            faults[str(folder)] = str(error)
    if path.is_dir():
        _check_pins(path, tasks, faults)
    return tasks, faults


def _list_folders(path: Path, dataset: str | None) -> list[Path]:
    if path.is_dir():
        if (path / TASK_FILE).is_file():
            return [path]
        return sorted(file.parent for file in path.glob(f"*/{TASK_FILE}"))
    return list(_read_registry(path, dataset))


def _read_registry(path: Path, dataset: str | None) -> Iterator[Path]:
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
        known = {f"{entry['name']}@{entry.get('version', '')}": entry["tasks"] for entry in entries}
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise UsageError(f"{path} is no registry of Harbor datasets: {error}") from error
    if not known:
        raise UsageError(f"{path} names no dataset")
    chosen = [name for name in known if dataset in (None, name, name.rpartition("@")[0])]
    if len(chosen) != 1:
        names = ", ".join(name.rstrip("@") for name in known)
        what = f"has no one dataset {dataset!r}" if dataset else "has several datasets"
        raise UsageError(f"{path} {what}: {names}", hint="choose one by name@version")
    tasks = known[chosen[0]]
    for task in tasks if isinstance(tasks, list) else [tasks]:
        if not isinstance(task, dict) or not _is_path(task.get("path")):
            raise UsageError(f"{path} names a task without a path: {task!r}")
        if task.get("git_url"):
            raise UsageError(
                f"task {task.get('name')!r} of {path} lies in a Git repository",
                hint=f"clone {task['git_url']} and name the folder of its tasks",
            )
        yield path.parent / task["path"]


def _is_path(value: object) -> bool:
    """Say whether a value is text that a file system can be asked for: no NUL, no half of a surrogate pair."""
    try:
        return isinstance(value, str) and b"\0" not in os.fsencode(value)
    except UnicodeEncodeError:
        return False


def _check_pins(folder: Path, tasks: list[HarborTask], faults: dict[str, str]) -> None:
    """Move tasks whose content is not what dataset.toml says to the faults."""
    manifest = folder / "dataset.toml"
    if not manifest.is_file():
        return
    try:
        entries = tomllib.loads(manifest.read_text(encoding="utf-8")).get("tasks", [])
        pins = {entry["name"]: entry["digest"] for entry in entries}
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UsageError(f"{manifest} is no list of Harbor tasks: {error}") from error
    for task in list(tasks):
        pinned = pins.get(task.name)
        if pinned is not None and pinned != task.digest:
            tasks.remove(task)
            faults[str(task.folder)] = (
                f"{task.folder} is not the {task.name} of dataset.toml: {task.digest}, not {pinned}"
            )
