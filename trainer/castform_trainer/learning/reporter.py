"""Where a loop's events go: the run store, the watchers, and whoever shows progress."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

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
from castform.plugins.watchers import Watchers
from castform.runs import RunStore

RunListener = Callable[[RunInfo, RunEvent], None]
"""Called on the event loop with each event, after it is in the store."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reporter:
    """Writes a run down. Store first: what a listener is told has been stored."""

    run: RunInfo
    store: RunStore
    watchers: Watchers
    listeners: Sequence[RunListener] = ()

    def tell(self, event: RunEvent) -> None:
        """Store an event where the store keeps its kind, then call watchers and listeners."""
        run_id = self.run.run_id
        match event:
            case StepEnded():
                self.store.add_scalars(run_id, event.step, event.scalars)
            case EvalEnded():
                self.store.add_scalars(run_id, event.step, event.scalars, mode="eval")
            case CheckpointSaved():
                self.store.add_event(run_id, "checkpoint", step=event.step, data={"path": str(event.path)})
            case RunStarted():
                self.store.add_event(run_id, "started", step=event.start_step, data={"steps": event.steps})
            case RunEnded():
                self.store.add_event(run_id, "ended", data=asdict(event))
            case GroupScored():
                pass  # its rollouts are stored with the step
        self.watchers.notify(self.run, event)
        for listener in self.listeners:
            listener(self.run, event)

    def note(self, kind: str, *, step: int, data: Mapping[str, object]) -> None:
        """Store something that only the store is told: counts, a canary reading, a skipped step."""
        self.store.add_event(self.run.run_id, kind, step=step, data=data)
