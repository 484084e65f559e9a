"""How far sampling is: a bar on a terminal, a line now and then elsewhere. On stderr."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING

from castform.cli.output import print_note

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from castform.rollouts import RolloutGroup

LINE_SECONDS = 10.0


class GroupProgress:
    """Counts groups, scores and failures for as long as the block lasts."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = self._scored = self._failed = 0
        self._sum = 0.0
        self._said = time.monotonic()
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> GroupProgress:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._bar.start()
            self._task = self._bar.add_task("examples", total=self._total)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def add(self, group: RolloutGroup) -> None:
        """Count one finished group."""
        self._done += 1
        for rollout in group.rollouts:
            if rollout.score is None:
                self._failed += 1
            else:
                self._scored += 1
                self._sum += rollout.score
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, advance=1, description=self._describe())
        elif time.monotonic() - self._said >= LINE_SECONDS:
            self._said = time.monotonic()
            print_note(f"{self._done} of {self._total} examples, {self._describe()}")

    def _describe(self) -> str:
        mean = f"score {self._sum / self._scored:.3f}" if self._scored else "no score yet"
        return f"{mean}, {self._failed} failed" if self._failed else mean
