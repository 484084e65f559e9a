"""Show a training run while it goes: a live view on a terminal, plain lines elsewhere.

It is told the same events as watchers are, and writes to stderr: stdout is data.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from castform.plugins.events import (
    CheckpointSaved,
    EvalEnded,
    GroupScored,
    RunEnded,
    RunEvent,
    RunInfo,
    RunStarted,
    StepEnded,
)

if TYPE_CHECKING:
    from rich.console import RenderableType

Listener = Callable[[RunInfo, RunEvent], None]
COMPONENT = "reward/component/"
SHOWN_STEPS = 12
"""Rows of the live view."""


@contextmanager
def show_progress(
    stream: TextIO | None = None, *, clock: Callable[[], float] = time.monotonic
) -> Iterator[Listener]:
    """Yield a listener that shows what it is told on `stream` (default stderr)."""
    out = stream or sys.stderr
    if not out.isatty():
        yield PlainProgress(out, clock=clock)
        return
    from rich.console import Console
    from rich.live import Live

    live = LiveProgress(clock=clock)
    with Live(console=Console(file=out), refresh_per_second=4, get_renderable=live.render):
        yield live


class Tracker:
    """Keeps of a run what either view needs."""

    def __init__(self, *, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._began = clock()
        self.title = ""
        self.steps = 0
        self.step = 0
        self.start_step = 0
        self.groups = 0
        """Groups scored in the step that is going on."""
        self.rows: list[tuple[int, Mapping[str, float]]] = []
        self.doing = "loading the model"

    def take(self, run: RunInfo, event: RunEvent) -> None:
        """Learn from one event."""
        match event:
            case RunStarted():
                self.title = f"{run.environment} on {run.model} · run {run.run_id}"
                self.steps, self.step, self.start_step = event.steps, event.start_step, event.start_step
                self.doing = "evaluating the base model" if not event.start_step else "resuming"
            case EvalEnded():
                self._began = self._clock() if event.step == self.start_step else self._began
                self.doing = "training"
            case GroupScored():
                self.groups += 1
                self.doing = "sampling"
            case StepEnded():
                self.step, self.groups = event.step, 0
                self.rows.append((event.step, event.scalars))
                going_on = "training" if "train/epoch" in event.scalars else "sampling"
                self.doing = "evaluating" if event.step >= self.steps else going_on
            case RunEnded():
                self.doing = event.status
            case CheckpointSaved():
                pass

    def seconds_left(self) -> float | None:
        """Estimate the time to the last step from the mean of the last ten; None before the first."""
        recent = [scalars.get("time/step_seconds", 0.0) for _, scalars in self.rows[-10:]]
        return (self.steps - self.step) * sum(recent) / len(recent) if recent else None


class PlainProgress:
    """One line an event that matters."""

    def __init__(self, out: TextIO, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._out = out
        self._tracker = Tracker(clock=clock)

    def __call__(self, run: RunInfo, event: RunEvent) -> None:
        self._tracker.take(run, event)
        line = self._line(event)
        if line:
            self._out.write(line + "\n")
            self._out.flush()

    def _line(self, event: RunEvent) -> str | None:
        tracker = self._tracker
        match event:
            case RunStarted():
                start = f" from step {event.start_step}" if event.start_step else ""
                return f"{tracker.title}: {event.steps} steps{start}"
            case StepEnded():
                left = tracker.seconds_left()
                parts = [f"step {event.step}/{tracker.steps}", *_cells(event.scalars).values()]
                return "  ".join(
                    [*parts, f"{format_seconds(left)} left" if left is not None else ""]
                ).rstrip()
            case EvalEnded():
                figures = [
                    f"{name.rpartition('/')[2]} {value:.3f}"
                    for name, value in event.scalars.items()
                    if name != "eval/scored"
                ]
                return f"held out, after {event.step} steps: {'  '.join(figures) or 'nothing was scored'}"
            case CheckpointSaved():
                return f"checkpoint of step {event.step}: {event.path}"
            case RunEnded():
                return f"{event.status} after {event.step} steps"  # the reason is the command's error
            case GroupScored():
                return None


class LiveProgress:
    """A table of the last steps and a line on what is going on."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._tracker = Tracker(clock=clock)
        self._evals: list[str] = []
        self._measured = "score"

    def __call__(self, run: RunInfo, event: RunEvent) -> None:
        self._tracker.take(run, event)
        if isinstance(event, EvalEnded):
            for name in ("score", "loss"):
                if f"eval/{name}" in event.scalars:
                    self._measured = name
                    self._evals.append(f"{event.scalars[f'eval/{name}']:.3f} after {event.step} steps")

    def render(self) -> RenderableType:
        """Return the view as it is now."""
        from rich import box
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        tracker = self._tracker
        rows = [(step, _cells(scalars, bare=True)) for step, scalars in tracker.rows[-SHOWN_STEPS:]]
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        names = list(dict.fromkeys(name for _, cells in rows for name in cells))
        for name in ["step", *names]:
            table.add_column(name, justify="right")
        for step, cells in rows:
            table.add_row(str(step), *(cells.get(name, "") for name in names))
        left = tracker.seconds_left()
        status = f"step {tracker.step}/{tracker.steps} · {tracker.doing}"
        if tracker.groups:
            status += f" · {tracker.groups} groups scored"
        if left is not None:
            status += f" · {format_seconds(left)} left"
        parts: list[Any] = [Text(tracker.title, style="bold")]
        if self._evals:
            parts.append(Text(f"held-out {self._measured}: " + ", ".join(self._evals)))
        return Group(*parts, *([table] if rows else []), Text(status))


def format_seconds(seconds: float) -> str:
    """Return 42 s, 3 min 20 s or 2 h 05 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min"


def _cells(scalars: Mapping[str, float], *, bare: bool = False) -> dict[str, str]:
    """Return what a step shows, by column; `bare` leaves out the names that a table has above."""
    found: dict[str, tuple[str, str]] = {}
    if "reward/mean" in scalars:
        found["reward"] = ("reward ", f"{scalars['reward/mean']:.3f}")
    for name, value in scalars.items():
        if name.startswith(COMPONENT):
            found[name.removeprefix(COMPONENT)] = (name.removeprefix(COMPONENT) + " ", f"{value:.3f}")
    if "reward/spread" in scalars:
        found["spread"] = ("spread ", f"{scalars['reward/spread']:.3f}")
    if "groups/signal_share" in scalars:
        found["signal"] = ("signal ", f"{scalars['groups/signal_share']:.0%}")
    if scalars.get("rollouts/failed_share"):
        found["failed"] = ("failed ", f"{scalars['rollouts/failed_share']:.0%}")
    if "train/epoch" in scalars:  # of supervised finetuning
        found["loss"] = ("loss ", f"{scalars['train/loss']:.4f}")
        found["rate"] = ("rate ", f"{scalars['train/learning_rate']:.2g}")
        found["tok/s"] = ("", f"{scalars['speed/tokens_per_second']:.0f}")
    if "tokens/sampled" in scalars and scalars.get("time/step_seconds"):
        found["tok/s"] = ("", f"{scalars['tokens/sampled'] / scalars['time/step_seconds']:.0f}")
    if "time/step_seconds" in scalars:
        found["seconds"] = ("", f"{scalars['time/step_seconds']:.1f}")
    if bare:
        return {name: value for name, (_, value) in found.items()}
    units = {"tok/s": " tok/s", "seconds": " s"}
    return {name: f"{label}{value}{units.get(name, '')}" for name, (label, value) in found.items()}
