"""How much of a reference text comes back in an answer."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from benchmax.rewards.deterministic.completion import (
    Completion,
    extract_answer_block,
    extract_completion_text,
)

RUN_CHARS = 12
"""Shortest stretch of characters that counts as taken over; below it two unrelated texts agree by chance."""


def clip01(value: object) -> float:
    """Return the value as a float between 0 and 1; 0 when it is no finite number."""
    try:
        number = float(value)  # type: ignore[arg-type]  # whatever it is, float() decides
    except (TypeError, ValueError, OverflowError):
        return 0.0
    return min(1.0, max(0.0, number)) if math.isfinite(number) else 0.0


def percent_of_text_a_in_text_b(text_a: str, text_b: str) -> float:
    """Return the share of a's characters, 0 to 1, that lie in stretches also found in b.

    A stretch counts from 12 characters on, or from half of a when a is shorter than 24, so
    common letters and short words do not add up. White space compares as one blank. The
    stretches may come in any order in b. Linear in the lengths. An empty a gives 0.
    """
    a, b = " ".join(text_a.split()), " ".join(text_b.split())
    if not a:
        return 0.0
    run = min(RUN_CHARS, math.ceil(len(a) / 2))
    runs_of_b = {b[start : start + run] for start in range(len(b) - run + 1)}
    found = 0
    counted_to = 0
    for start in range(len(a) - run + 1):
        if a[start : start + run] in runs_of_b:
            found += start + run - max(start, counted_to)
            counted_to = start + run
    return found / len(a)


def overlap_reward(
    completion: Completion,
    ground_truth: object,
    *,
    reference_chunks: Iterable[object] = (),
    minimum_overlap: float = 0.25,
) -> float:
    """Return the share of the reference that the answer contains, 0 when below `minimum_overlap`.

    The reference is the chunks' joined `content`, or else the ground truth as text; the
    answer is the completion's answer block. ValueError: the minimum is outside 0 to 1.
    """
    if not 0.0 <= minimum_overlap <= 1.0:
        raise ValueError(f"minimum_overlap must be between 0 and 1, not {minimum_overlap}")
    contents = [chunk_content(chunk) for chunk in reference_chunks]
    reference = "\n".join(filter(None, contents)) or str(ground_truth)
    answer = extract_answer_block(extract_completion_text(completion))
    overlap = percent_of_text_a_in_text_b(reference, answer)
    return overlap if overlap >= minimum_overlap else 0.0


def chunk_content(chunk: object) -> str:
    """Return a chunk's `content`, as attribute or key; "" when it has none."""
    content = chunk.get("content") if isinstance(chunk, Mapping) else getattr(chunk, "content", None)
    return content if isinstance(content, str) else ""
