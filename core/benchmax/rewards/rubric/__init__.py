"""One criterion in words, and a judge's score of one answer by it.

Ranking by a rubric is in `benchmax.rewards.ranking`, and importable from here as well.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from benchmax.rewards.rubric.evaluate import RubricEvaluation, evaluate_single_rubric
from benchmax.rewards.rubric.rubric import Rubric, RubricPolarity, rubric_reward_key

if TYPE_CHECKING:
    from benchmax.rewards.ranking import RankingAnchor, RubricRanking, evaluate_rubric_ranking

__all__ = [
    "RankingAnchor",
    "Rubric",
    "RubricEvaluation",
    "RubricPolarity",
    "RubricRanking",
    "evaluate_rubric_ranking",
    "evaluate_single_rubric",
    "rubric_reward_key",
]

_OF_RANKING = ("RankingAnchor", "RubricRanking", "evaluate_rubric_ranking")


def __getattr__(name: str) -> object:
    if name not in _OF_RANKING:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("benchmax.rewards.ranking"), name)
