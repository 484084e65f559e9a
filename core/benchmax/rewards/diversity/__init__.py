"""Pay a group for different answers, not for the same one many times."""

from __future__ import annotations

from benchmax.rewards.diversity.cluster import cluster_texts, scale_by_diversity
from benchmax.rewards.diversity.config import (
    DEFAULT_DIVERSITY_INSTRUCTIONS,
    DiversityConfig,
    LLMDiversityConfig,
    NgramDiversityConfig,
)
from benchmax.rewards.diversity.result import ClusterResult

__all__ = [
    "DEFAULT_DIVERSITY_INSTRUCTIONS",
    "ClusterResult",
    "DiversityConfig",
    "LLMDiversityConfig",
    "NgramDiversityConfig",
    "cluster_texts",
    "scale_by_diversity",
]
