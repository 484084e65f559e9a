"""One criterion in words, and a judge's score of one answer by it."""

from __future__ import annotations

from benchmax.rewards.rubric.evaluate import RubricEvaluation, evaluate_single_rubric
from benchmax.rewards.rubric.rubric import Rubric, rubric_reward_key

__all__ = ["Rubric", "RubricEvaluation", "evaluate_single_rubric", "rubric_reward_key"]
