"""How many tool calls a completion took, and what that is worth."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from benchmax.rewards.deterministic.completion import Completion, is_assistant, message_text

TOOL_CALL_MARKER = "<tool_call>"
FREE_CALLS = 2
"""Calls beyond one per reference chunk that cost nothing."""

CallRange = tuple[int, int | None, float]
"""(least calls, most calls or None, score), both ends included."""


def count_search_calls(completion: Completion) -> int:
    """Return the number of tool calls in the assistant's turns.

    A turn's calls are its structured `tool_calls`, or the `<tool_call>` markers in its
    text, whichever are more: a server that parses calls may leave the text in place.
    """
    if isinstance(completion, str):
        return completion.count(TOOL_CALL_MARKER)
    return sum(_calls_of_turn(message) for message in completion if is_assistant(message))


def search_within_budget(calls: int, max_calls: int) -> bool:
    """Whether the calls are within the budget. ValueError for negative numbers."""
    _check_not_negative(calls=calls, max_calls=max_calls)
    return calls <= max_calls


def tool_call_efficiency(
    completion: Completion,
    *,
    correctness: float = 1.0,
    reference_chunk_count: int = 0,
    max_calls: int = 10,
    decay_rate: float = 0.2,
    ranges: Sequence[CallRange] | None = None,
) -> float:
    """Return what the number of tool calls makes of the correctness.

    With `ranges`: the score of the first (least, most, score) that holds the number of
    calls, else 0. Without: correctness * exp(-decay_rate * extra), where extra counts the
    calls beyond `reference_chunk_count` + 2; 0 when the correctness is not above 0 or there
    are more than `max_calls`. ValueError for other negative numbers.
    """
    _check_not_negative(
        reference_chunk_count=reference_chunk_count,
        max_calls=max_calls,
        decay_rate=decay_rate,
    )
    calls = count_search_calls(completion)
    if ranges is not None:
        return next(
            (score for least, most, score in ranges if least <= calls and (most is None or calls <= most)),
            0.0,
        )
    if not correctness > 0 or not search_within_budget(calls, max_calls):
        return 0.0
    extra = max(0, calls - (reference_chunk_count + FREE_CALLS))
    return correctness * math.exp(-decay_rate * extra)


def _calls_of_turn(message: Mapping[str, Any]) -> int:
    structured = message.get("tool_calls")
    count = len(structured) if isinstance(structured, (list, tuple)) else 0
    return max(count, message_text(message).count(TOOL_CALL_MARKER))


def _check_not_negative(**numbers: float) -> None:
    for name, number in numbers.items():
        if not number >= 0:
            raise ValueError(f"{name} must not be negative, not {number}")
