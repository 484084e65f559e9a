"""Clusters of texts as a judge sees them, from one request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from benchmax.rewards.diversity.config import LLMDiversityConfig
from benchmax.rewards.diversity.result import ClusterResult, number_clusters
from benchmax.rewards.judge import ask_judge, fence
from benchmax.rewards.request_ids import make_request_id

PROMPT = """Sort the numbered answers below into groups of answers that are the same.

When two answers are the same: {instructions}

{context}{answers}

Every number from 0 to {last} belongs to exactly one group. An answer that is like no other is a group of its own.
Reply with one JSON object and nothing else:
{{"clusters": [{{"label": "what the answers of this group have in common", "members": [0, 2]}}, {{"label": "...", "members": [1]}}]}}"""


class _Cluster(NamedTuple):
    label: str
    members: tuple[int, ...]


async def cluster_by_reading(
    texts: Sequence[str], config: LLMDiversityConfig, *, context: str
) -> ClusterResult:
    """Return the clusters that the judge finds; `context` is what the texts answer. JudgeError: no usable reply."""
    prompt = PROMPT.format(
        instructions=config.instructions,
        context=fence("Question", context) + "\n\n" if context else "",
        answers="\n\n".join(fence(f"Answer {index}", text) for index, text in enumerate(texts)),
        last=len(texts) - 1,
    )
    clusters, raw = await ask_judge(
        config.judge,
        prompt,
        request_id=make_request_id("diversity", prompt),
        read=make_cluster_reader(len(texts)),
        untrusted=[context, *texts],
        temperature=config.temperature,
        max_tokens=config.max_tokens,
    )
    home = {member: cluster for cluster in clusters for member in cluster.members}
    homes = [home[index] for index in range(len(texts))]
    cluster_ids, divisors = number_clusters(homes)
    labels = tuple(cluster.label for cluster in dict.fromkeys(homes))
    return ClusterResult(cluster_ids=cluster_ids, divisors=divisors, labels=labels, raw_response=raw)


# Any: a judge's reply is whatever JSON object it wrote.
def make_cluster_reader(count: int) -> Callable[[dict[str, Any]], list[_Cluster]]:
    """Return a reader of replies that put each of the texts 0 to count-1 into one cluster. ValueError on others."""

    def read(reply: dict[str, Any]) -> list[_Cluster]:
        listed = reply.get("clusters")
        if not isinstance(listed, list):
            raise ValueError(f"'clusters' must be a list, not {listed!r}")
        clusters = [_read_cluster(cluster) for cluster in listed]
        members = sorted(member for cluster in clusters for member in cluster.members)
        if members != list(range(count)):
            raise ValueError(f"'clusters' must have each of the numbers 0 to {count - 1} once, not {members}")
        return clusters

    return read


def _read_cluster(cluster: object) -> _Cluster:
    if not isinstance(cluster, dict):
        raise ValueError(f"a cluster must be an object, not {cluster!r}")
    label, members = cluster.get("label"), cluster.get("members")
    if not isinstance(label, str | None):
        raise ValueError(f"a cluster's 'label' must be a string, not {label!r}")
    if not isinstance(members, list) or not members:
        raise ValueError(f"a cluster's 'members' must be a non-empty list, not {members!r}")
    for member in members:
        if isinstance(member, bool) or not isinstance(member, int):
            raise ValueError(f"a cluster's 'members' must be integers, not {member!r}")
    return _Cluster(label or "", tuple(members))
