"""What the run store gives back, and how values become text in it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from castform.plain_values import make_plain

RunStatus = Literal["pending", "running", "finished", "failed", "stopped", "lost"]
"""lost is never stored: it is a run that says it is running while its process is gone."""

ENDED: frozenset[str] = frozenset({"finished", "failed", "stopped", "lost"})


@dataclass(frozen=True, kw_only=True, slots=True)
class RunRecord:
    """One run as the store knows it. Times are seconds since the epoch."""

    run_id: str
    kind: str
    """train, eval, validate or rescore."""
    name: str
    status: RunStatus
    created: float
    updated: float
    heartbeat: float | None
    host: str | None
    pid: int | None
    stop_requested: bool
    error: str | None
    run_dir: Path | None
    config: Mapping[str, Any]
    environment: Mapping[str, Any]
    """Its pin: id, distribution, version, content_sha256, args, datasets."""
    pin: str | None = None
    """Digest of `environment`."""
    parent_id: str | None = None
    """The run that this one was made from."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PinRecord:
    """What an environment was when it scored."""

    digest: str
    pin: Mapping[str, Any]
    details: Mapping[str, Any]
    """Marks of its files and examples; empty when they were not stored."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EventRecord:
    event_id: int
    at: float
    kind: str
    step: int | None
    data: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class ScalarPoint:
    step: int
    value: float | None
    """None: it was not a finite number."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RolloutRecord:
    """One stored rollout. `messages` is empty in listings; `RunStore.get_rollout` fills it."""

    rollout_id: str
    mode: str
    step: int
    group_id: str
    example_id: str
    sample: int
    split: str
    score: float | None
    rewards: Mapping[str, float]
    termination_reason: str
    error: str | None
    disposition: str | None
    """What training did with it: trained, filtered(…), stale, …; None outside training."""
    seed: int
    seconds: float
    turns: int
    prompt_tokens: int | None
    """Of the longest prompt."""
    completion_tokens: int | None
    """Of all replies together."""
    calls_path: str | None
    """JSONL file with the calls' token arrays, relative to the run folder."""
    call_ids: Sequence[str]
    pin: str | None = None
    """Digest of the environment's pin; None when the run was stored without one."""
    messages: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class EvalRecord:
    label: str
    step: int
    at: float
    result: Mapping[str, Any]


def to_json(value: object) -> str:
    """Return compact ASCII JSON; numbers that JSON does not know become null, other objects text."""
    try:
        return json.dumps(value, separators=(",", ":"), allow_nan=False, default=make_plain)
    except ValueError:
        return json.dumps(_without_nan(value), separators=(",", ":"), allow_nan=False, default=make_plain)


def clean_text(text: str | None) -> str | None:
    """Return text that every database takes: no NUL, no lone surrogates."""
    if text is None:
        return None
    return text.replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode("utf-8")


def _without_nan(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(k): _without_nan(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_nan(v) for v in value]
    return value
