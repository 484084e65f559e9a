"""Turn groups and scalars into rows of the store."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from castform.lengths import measure_lengths
from castform.runs.records import clean_text, to_json

if TYPE_CHECKING:
    from castform.rollouts import RolloutGroup


def scalar_rows(
    run_id: str, step: int, mode: str, values: Mapping[str, float | None]
) -> list[dict[str, Any]]:
    return [
        {
            "run_id": run_id,
            "mode": mode,
            "name": name,
            "step": step,
            "value": float(value) if value is not None and math.isfinite(value) else None,
        }
        for name, value in values.items()
    ]


def rollout_rows(
    run_id: str,
    groups: Sequence[RolloutGroup],
    mode: str,
    step: int,
    calls_path: str | None,
    dispositions: Mapping[str, str],
    pin: str | None,
) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for group in groups:
        for rollout in group.rollouts:
            lengths = measure_lengths(rollout.calls)
            rows.append(
                {
                    "run_id": run_id,
                    "rollout_id": rollout.rollout_id,
                    "mode": mode,
                    "step": step,
                    "group_id": group.group_id,
                    "example_id": clean_text(rollout.example_id),
                    "sample": rollout.sample,
                    "split": rollout.split,
                    "score": rollout.score,
                    "rewards": to_json(rollout.rewards),
                    "termination_reason": clean_text(rollout.termination_reason),
                    "error": clean_text(rollout.error),
                    "disposition": dispositions.get(rollout.rollout_id),
                    "transcript": to_json(rollout.messages),
                    "seed": str(rollout.seed),
                    "seconds": rollout.seconds,
                    "turns": lengths.turns,
                    "prompt_tokens": lengths.prompt_tokens,
                    "completion_tokens": lengths.completion_tokens,
                    "calls_path": calls_path,
                    "call_ids": to_json([call.call_id for call in rollout.calls]),
                    "pin": pin,
                }
            )
    return rows
