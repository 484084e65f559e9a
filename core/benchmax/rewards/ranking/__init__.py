"""Scores from comparison: a judge ranks a group's answers against each other."""

from __future__ import annotations

from benchmax.rewards.ranking.anchors import RankingAnchor
from benchmax.rewards.ranking.evaluate import RubricRanking, evaluate_rubric_ranking
from benchmax.rewards.ranking.group import rank_group_rubrics

__all__ = ["RankingAnchor", "RubricRanking", "evaluate_rubric_ranking", "rank_group_rubrics"]
