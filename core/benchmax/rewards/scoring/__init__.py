"""Score one rollout, or a group of them, by rubrics."""

from __future__ import annotations

from benchmax.rewards.scoring.group import score_group_rubrics
from benchmax.rewards.scoring.single import score_rubrics

__all__ = ["score_group_rubrics", "score_rubrics"]
