"""Score one rollout, or a group of them, by rubrics.

Ranking a group is in `benchmax.rewards.ranking`, and importable from here as well.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from benchmax.rewards.rubric import rubric_reward_key
from benchmax.rewards.scoring.group import score_group_rubrics
from benchmax.rewards.scoring.single import score_rubrics

if TYPE_CHECKING:
    from benchmax.rewards.ranking import rank_group_rubrics

__all__ = ["rank_group_rubrics", "rubric_reward_key", "score_group_rubrics", "score_rubrics"]


def __getattr__(name: str) -> object:
    if name != "rank_group_rubrics":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("benchmax.rewards.ranking"), name)
