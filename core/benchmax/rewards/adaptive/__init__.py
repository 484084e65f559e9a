"""Rubrics that a judge finds by looking at a group's own answers."""

from __future__ import annotations

from benchmax.rewards.adaptive.cache import RubricCache, prompt_key
from benchmax.rewards.adaptive.generate import generate_adaptive_rubrics
from benchmax.rewards.adaptive.rubrics import AdaptiveRubrics
from benchmax.rewards.adaptive.select import generate_and_cache_adaptive_rubrics

__all__ = [
    "AdaptiveRubrics",
    "RubricCache",
    "generate_adaptive_rubrics",
    "generate_and_cache_adaptive_rubrics",
    "prompt_key",
]
