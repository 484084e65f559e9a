"""Find the answers of a group that are the same, and pay the same answer once."""

from __future__ import annotations

from collections.abc import Sequence

from benchmax.envs.reward_values import RewardMap, check_rewards
from benchmax.rewards.diversity.config import DiversityConfig, NgramDiversityConfig
from benchmax.rewards.diversity.ngrams import cluster_by_ngrams
from benchmax.rewards.diversity.reading import cluster_by_reading
from benchmax.rewards.diversity.result import ClusterResult, number_clusters


async def cluster_texts(texts: Sequence[str], config: DiversityConfig, *, context: str = "") -> ClusterResult:
    """Return which of the texts are the same, by the rule of `config`.

    `context`, usually the question, is shown to a judge and means nothing to n-grams.
    Fewer than two texts need no judge. JudgeError: the judge gave no clusters.
    """
    if isinstance(config, NgramDiversityConfig):
        return cluster_by_ngrams(texts, config)
    if len(texts) < 2:
        return number_clusters(texts)
    return await cluster_by_reading(texts, config, context=context)


async def scale_by_diversity(
    rewards: Sequence[RewardMap], texts: Sequence[str], config: DiversityConfig, *, context: str = ""
) -> tuple[list[dict[str, float]], ClusterResult]:
    """Return the rewards with each positive component divided by the size of its text's cluster, and the clusters.

    k copies of one good answer thus earn together what a single one earns. A negative
    component stays whole: divided, a bad answer would get cheaper the more often it is
    given. ValueError: not one text for each reward map. Values that are no rewards are
    refused as everywhere (TypeError, ValueError).
    """
    if len(rewards) != len(texts):
        raise ValueError(f"there must be one text for each reward map, not {len(texts)} for {len(rewards)}")
    checked = [check_rewards(components) for components in rewards]
    clusters = await cluster_texts(texts, config, context=context)
    scaled = [
        {name: value / divisor if value > 0 else value for name, value in components.items()}
        for components, divisor in zip(checked, clusters.divisors, strict=True)
    ]
    return scaled, clusters
