"""Which rows a step trains on, and how fast. Pure Python: the plan of a run needs no torch."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from functools import lru_cache

from castform.seeds import derive_seed
from castform.sft.config import SftConfig


@dataclass(frozen=True, kw_only=True, slots=True)
class Schedule:
    """The rows of every step, from the seed alone: there is no cursor that a resume could lose."""

    rows: int
    steps_per_epoch: int
    steps: int
    """Of the whole run."""
    seed: int

    def rows_of(self, step: int) -> list[int]:
        """Return the rows of a step, from 0.

        Each epoch is shuffled anew and dealt out evenly, so every row is trained on once an epoch
        and no step is left with a remnant: sizes differ by one at most.
        """
        epoch, place = divmod(step, self.steps_per_epoch)
        return list(shuffle_rows(self.rows, self.seed, epoch)[place :: self.steps_per_epoch])


def make_schedule(config: SftConfig, rows: int) -> Schedule:
    """Return the schedule of a run over `rows` training rows, at least one."""
    steps_per_epoch = math.ceil(rows / config.batch.rows)
    return Schedule(
        rows=rows,
        steps_per_epoch=steps_per_epoch,
        steps=config.run.steps or config.run.epochs * steps_per_epoch,
        seed=config.run.seed,
    )


@lru_cache(maxsize=2)
def shuffle_rows(rows: int, seed: int, epoch: int) -> tuple[int, ...]:
    """Return the row numbers in the order of an epoch."""
    order = list(range(rows))
    random.Random(derive_seed(seed, "epoch", epoch)).shuffle(order)
    return tuple(order)


def learning_rate(config: SftConfig, update: int, *, total: int) -> float:
    """Return the rate of an update, from 0, of a run of `total`.

    It rises in equal parts to the full rate in the update after the warm-up, and then stays, or
    follows half a cosine that reaches min_learning_rate after the last update.
    """
    highest, lowest = config.learning_rate, config.optimizer.min_learning_rate
    warmup = round(config.optimizer.warmup_ratio * total)
    if update < warmup:
        return highest * (update + 1) / (warmup + 1)
    if config.optimizer.decay == "constant":
        return highest
    share = min(1.0, (update - warmup) / max(1, total - warmup))
    return lowest + (highest - lowest) * (1 + math.cos(math.pi * share)) / 2
