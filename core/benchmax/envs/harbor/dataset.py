"""Harbor tasks as examples: named by content, split by id, copied so that they stay what they are."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

from benchmax.envs.dataset import Dataset, validate_max_examples
from benchmax.envs.harbor.configs import DatasetConfig, take_config
from benchmax.envs.harbor.content import copy_snapshot, hash_task
from benchmax.envs.harbor.sources import TaskSource, fetch_tasks, find_tasks
from benchmax.envs.shared_types import SPLITS, Example

SNAPSHOTS = "tasks"
DOWNLOADS = "downloads"

logger = logging.getLogger(__name__)
ItemT = TypeVar("ItemT")


class HarborDataset(Dataset[Mapping[str, Any]]):
    """Tasks whose ids are Harbor's content hashes, in the order of their ids.

    A payload has `path` (the copied folder), `name` and `source` (the dataset's name).
    """

    @classmethod
    async def create(
        cls,
        config: DatasetConfig,
        *,
        base_dir: Path,
        disable_verification: bool = False,
        max_examples: int | None = None,
        split: str | None = None,
        eval_ratio: float | None = None,
    ) -> HarborDataset:
        """Find the tasks, take a split of them, and copy each to `<base_dir>/tasks/<hash>`.

        Without `split`, all of them. Where a manifest names every task's hash, only the tasks that
        are taken are fetched. ValueError: no tasks, two with equal content, a task that is not what
        its manifest says, or a split that cannot be made.
        """
        config = take_config(DatasetConfig, config, "config")
        validate_max_examples(max_examples)
        if split is not None and split not in SPLITS:
            raise ValueError(f"split must be 'train' or 'eval', not {split!r}")
        if eval_ratio is not None:
            check_eval_ratio(eval_ratio)
        base_dir = _absolute(base_dir)
        with _noting_source(config):
            return await cls._create(config, base_dir, disable_verification, max_examples, split, eval_ratio)

    @classmethod
    async def _create(
        cls,
        config: DatasetConfig,
        base_dir: Path,
        disable_verification: bool,
        max_examples: int | None,
        split: str | None,
        eval_ratio: float | None,
    ) -> HarborDataset:
        tasks, name = await find_tasks(config, base_dir, disable_verification=disable_verification)
        known = [task.digest for task in tasks]
        if tasks and all(known):
            chosen = _choose(
                _order(zip(map(str, known), tasks, strict=True)), split, eval_ratio, max_examples
            )
            folders = await _fetch([task for _, task in chosen], config, base_dir)
            pairs = [(hash, (task, folder)) for (hash, task), folder in zip(chosen, folders, strict=True)]
        else:
            folders = await _fetch(tasks, config, base_dir)
            hashes = [await asyncio.to_thread(hash_task, folder) for folder in folders]
            found = zip(hashes, zip(tasks, folders, strict=True), strict=True)
            pairs = _choose(_order(found), split, eval_ratio, max_examples)
        examples = [await _make_example(hash, task, folder, base_dir, name) for hash, (task, folder) in pairs]
        return cls(examples)

    def train_eval_split(self, eval_ratio: float) -> tuple[HarborDataset, HarborDataset]:
        """Return the training and the held-out tasks; the lowest ids are held out."""
        check_eval_ratio(eval_ratio)
        count = count_eval(len(self), eval_ratio)
        ordered = sorted(self, key=lambda example: example.id)
        return HarborDataset(ordered[count:]), HarborDataset(ordered[:count])


def check_eval_ratio(value: object) -> float:
    """Return it when it is a number of at least 0 and below 1. ValueError otherwise."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1:
        raise ValueError(f"eval_ratio must be a number of at least 0 and below 1, not {value!r}")
    return float(value)


def count_eval(size: int, eval_ratio: float) -> int:
    """Return how many of `size` tasks are held out: some as soon as there are two, never all."""
    if eval_ratio == 0 or size < 2:
        return 0
    return min(size - 1, max(1, math.ceil(size * eval_ratio)))


@contextlib.contextmanager
def _noting_source(config: DatasetConfig) -> Iterator[None]:
    """Let a ValueError about tasks say whose they are, unless it says already what to do."""
    try:
        yield
    except ValueError as error:
        if not getattr(error, "__notes__", ()):
            source = config.path or config.registry_path or config.registry_url
            error.add_note(f"the tasks are those of {source or config.name}")
        raise


def _order(pairs: Any) -> list[tuple[str, Any]]:
    """Return (hash, task) pairs by hash. ValueError: two tasks have the same content."""
    ordered = sorted(pairs, key=lambda pair: pair[0])
    for (first, one), (second, other) in pairwise(ordered):
        if first == second:
            names = sorted(map(_name_of, (one, other)))
            raise ValueError(f"tasks {names[0]!r} and {names[1]!r} have duplicate content ({first})")
    return ordered


def _name_of(item: Any) -> str:
    task: TaskSource = item[0] if isinstance(item, tuple) else item
    return task.name


def _absolute(path: Path) -> Path:
    return Path(path).absolute()


def _choose(
    ordered: list[tuple[str, ItemT]], split: str | None, eval_ratio: float | None, max_examples: int | None
) -> list[tuple[str, ItemT]]:
    if split is not None and eval_ratio is not None:
        if split == "eval" and eval_ratio == 0:
            raise ValueError("automatic eval is disabled by eval_ratio=0")
        if split == "eval" and len(ordered) < 2:
            error = ValueError("automatic eval requires at least two dataset examples")
            error.add_note("name more tasks, or held-out ones as eval_tasks")
            raise error
        count = count_eval(len(ordered), eval_ratio)
        ordered = ordered[:count] if split == "eval" else ordered[count:]
    return ordered[:max_examples]


async def _fetch(tasks: Sequence[TaskSource], config: DatasetConfig, base_dir: Path) -> list[Path]:
    place = base_dir / (config.download_dir or DOWNLOADS)
    return await fetch_tasks(tasks, place, overwrite=config.overwrite)


async def _make_example(
    content_hash: str, task: TaskSource, folder: Path, base_dir: Path, source: str
) -> Example[Mapping[str, Any]]:
    if not (folder / "task.toml").is_file():
        raise ValueError(f"{folder} is no Harbor task: it has no task.toml")
    target = base_dir / SNAPSHOTS / content_hash
    await asyncio.to_thread(copy_snapshot, folder, target, content_hash)
    return Example(content_hash, {"path": str(target), "name": task.name, "source": source})
