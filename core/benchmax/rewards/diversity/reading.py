"""Clusters of texts as a judge sees them, from one request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from benchmax.rewards.diversity.config import LLMDiversityConfig
from benchmax.rewards.diversity.result import ClusterResult, count_shares
from benchmax.rewards.judge import ask_judge, fence
from benchmax.rewards.request_ids import make_request_id

PROMPT = """Sort the numbered answers below into groups of answers that are the same.

When two answers are the same: {instructions}

{context}{answers}

Put each of the numbers 0 to {last} into exactly one group. An answer that is like no other is a group of its own.
Name the groups yourself, in a word or two; the answers of one group have the same cluster_id.
Reply with one JSON object and nothing else, with one entry for each number:
{{"assignments": [{{"index": 0, "cluster_id": "name of its group", "label": "what the answers of this group have in common"}}]}}"""


class _Assignment(NamedTuple):
    cluster_id: str
    label: str


async def cluster_by_reading(
    texts: Sequence[str], config: LLMDiversityConfig, *, context: str
) -> ClusterResult:
    """Return the clusters that the judge finds; `context` is what the texts answer. JudgeError: no usable reply."""
    prompt = write_cluster_prompt(texts, context=context, instructions=config.instructions)
    assignments, raw = await ask_judge(
        config.judge,
        prompt,
        request_id=make_request_id("diversity", prompt),
        read=make_assignment_reader(len(texts)),
        untrusted=[context, *texts],
        temperature=config.temperature,
        max_tokens=config.max_tokens,
    )
    cluster_ids = tuple(assignment.cluster_id for assignment in assignments)
    labels = tuple(assignment.label for assignment in assignments)
    return ClusterResult(cluster_ids, count_shares(cluster_ids), labels, raw)


def write_cluster_prompt(texts: Sequence[str], *, context: str, instructions: str) -> str:
    """Return the prompt that shows the texts, and what they answer, each in a fence of its own."""
    return PROMPT.format(
        instructions=instructions,
        context=fence("Question", context) + "\n\n" if context else "",
        answers="\n\n".join(fence(f"Answer {index}", text) for index, text in enumerate(texts)),
        last=len(texts) - 1,
    )


# Any: a judge's reply is whatever JSON object it wrote.
def make_assignment_reader(count: int) -> Callable[[dict[str, Any]], list[_Assignment]]:
    """Return a reader of replies that put each of the texts 0 to count-1 into one cluster. ValueError on others."""

    def read(reply: dict[str, Any]) -> list[_Assignment]:
        listed = reply.get("assignments")
        if not isinstance(listed, list):
            raise ValueError(f"'assignments' must be a list, not {listed!r}")
        read_ones = [_read_assignment(item) for item in listed]
        indices = sorted(index for index, _ in read_ones)
        if indices != list(range(count)):
            raise ValueError(
                f"'assignments' must have each of the numbers 0 to {count - 1} once, not {indices}"
            )
        by_index = dict(read_ones)
        return [by_index[index] for index in range(count)]

    return read


def _read_assignment(item: object) -> tuple[int, _Assignment]:
    if not isinstance(item, dict):
        raise ValueError(f"an assignment must be an object, not {item!r}")
    index, cluster_id, label = item.get("index"), item.get("cluster_id"), item.get("label")
    if isinstance(index, bool) or not isinstance(index, int):
        raise ValueError(f"an assignment's 'index' must be an integer, not {index!r}")
    if not isinstance(cluster_id, str) or not cluster_id.strip():
        raise ValueError(f"an assignment's 'cluster_id' must be a non-empty string, not {cluster_id!r}")
    if not isinstance(label, str | None):
        raise ValueError(f"an assignment's 'label' must be a string, not {label!r}")
    return index, _Assignment(cluster_id.strip(), label or "")
