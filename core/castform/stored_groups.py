"""Groups of rollouts as the run store has them, with the replies that were recorded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from castform.call_log import CallIndex
from castform.calls import ModelCall
from castform.rollouts import Split
from castform.runs import RolloutRecord, RunRecord, RunStore


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredGroup:
    """Siblings as they were stored."""

    group_id: str
    example_id: str
    split: Split
    mode: str
    step: int
    rollouts: tuple[RolloutRecord, ...]
    """In the order of their samples."""


def group_records(records: Iterable[RolloutRecord]) -> list[StoredGroup]:
    """Put siblings together, groups in the order in which they were stored."""
    groups: dict[tuple[str, int, str], list[RolloutRecord]] = {}
    for record in records:
        groups.setdefault((record.mode, record.step, record.group_id), []).append(record)
    return [
        StoredGroup(
            group_id=group_id,
            example_id=found[0].example_id,
            split=cast(Split, found[0].split),  # run_group wrote it, with this type
            mode=mode,
            step=step,
            rollouts=tuple(sorted(found, key=lambda record: record.sample)),
        )
        for (mode, step, group_id), found in groups.items()
    ]


class StoredCalls:
    """Reads the calls of a run's rollouts: from the call log, or from the transcript where there is none."""

    def __init__(self, store: RunStore, run: RunRecord) -> None:
        self._store = store
        self._run = run
        self._logs: dict[Path, CallIndex] = {}

    def read(self, rollout: RolloutRecord) -> tuple[ModelCall, ...] | None:
        """Return the rollout's calls, or None when they were not kept. Raises RunFailedError for a damaged log."""
        if not rollout.call_ids:
            return ()
        calls = None
        if rollout.calls_path is not None and self._run.run_dir is not None:
            path = self._run.run_dir / rollout.calls_path
            if path not in self._logs:
                self._logs[path] = CallIndex(path)
            calls = self._logs[path].read(rollout.call_ids)
        if calls is not None:
            return calls
        found = self._store.read_transcripts(self._run.run_id, [rollout.rollout_id])
        return calls_of_transcript(rollout, found.get(rollout.rollout_id, ()))


def calls_of_transcript(
    rollout: RolloutRecord, messages: Sequence[Mapping[str, Any]]
) -> tuple[ModelCall, ...] | None:
    """Return the calls that a conversation shows, or None unless it shows exactly those that were made.

    How a reply ended is not in a transcript: one without tool calls counts as whole, unless the
    rollout ended by it.
    """
    places = [place for place, message in enumerate(messages) if message.get("role") == "assistant"]
    if len(places) != rollout.turns or len(rollout.call_ids) != rollout.turns:
        return None
    calls = []
    for index, place in enumerate(places):
        reply = messages[place]
        cut = rollout.termination_reason == "output_exceeded" and place == places[-1]
        whole = "tool_calls" if reply.get("tool_calls") else "stop"
        calls.append(
            ModelCall(
                call_id=rollout.call_ids[index],
                session_id=rollout.rollout_id,
                index=index,
                messages=tuple(messages[:place]),
                reply=reply,
                finish_reason="length" if cut else whole,
            )
        )
    return tuple(calls)
