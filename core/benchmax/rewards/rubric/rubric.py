"""A criterion, the scores that a judge may give for it, and what they are worth."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from benchmax.envs.shared_types import check_text

RubricPolarity = Literal["positive", "negative"]
POLARITIES = ("positive", "negative")
KEY_PREFIX = "rubric_"

_NOT_IN_KEYS = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True)
class Rubric:
    """What a good answer does, or with negative polarity what a bad one does.

    ValueError or TypeError: a blank text, another polarity, or a score map with fewer than
    two scores, a score that is no finite number, or one without a meaning.
    """

    title: str
    description: str
    polarity: RubricPolarity = "positive"
    score_map: Mapping[float, str] | None = None
    """What each score means, by score. None: 1 when the description is met, else 0."""

    def __post_init__(self) -> None:
        check_text("title", self.title)
        check_text("description", self.description)
        if self.polarity not in POLARITIES:
            raise ValueError(f"polarity must be 'positive' or 'negative', not {self.polarity!r}")
        if self.score_map is not None:
            object.__setattr__(self, "score_map", _checked_score_map(self.score_map))

    def __hash__(self) -> int:
        scores = None if self.score_map is None else tuple(sorted(self.score_map.items()))
        return hash((self.title, self.description, self.polarity, scores))

    @property
    def allowed_scores(self) -> tuple[float, ...]:
        """The scores that a judge may give, lowest first."""
        return (0.0, 1.0) if self.score_map is None else tuple(sorted(self.score_map))

    def reward_for(self, raw_score: float) -> float:
        """Return what a judge's score is worth, from 0 to 1.

        TypeError: the score is no number. ValueError: it is not an allowed one.
        """
        scores = self.allowed_scores
        if isinstance(raw_score, bool) or not isinstance(raw_score, (int, float)):
            raise TypeError(f"a score must be a number, not {raw_score!r}")
        if raw_score not in scores:
            allowed = ", ".join(f"{score:g}" for score in scores)
            raise ValueError(f"the score must be one of {allowed}")
        share = (raw_score - scores[0]) / (scores[-1] - scores[0])
        return 1.0 - share if self.polarity == "negative" else share


def rubric_reward_key(rubric: Rubric) -> str:
    """Return the name of the reward component: `rubric_` and the title in lower case with underscores.

    ValueError: the title has no letter or digit of a to z and 0 to 9.
    """
    slug = _slug(rubric.title)
    if not slug:
        raise ValueError(f"the rubric title {rubric.title!r} has no letter or digit to name a reward by")
    return KEY_PREFIX + slug


def rubric_name(rubric: Rubric) -> str:
    """Return what tells rubrics apart: the reward key, or the title where it makes none ("清楚")."""
    return KEY_PREFIX + (_slug(rubric.title) or rubric.title.strip())


def _slug(title: str) -> str:
    return _NOT_IN_KEYS.sub("_", title.lower()).strip("_")


def _checked_score_map(score_map: Mapping[Any, Any]) -> dict[float, str]:
    if not isinstance(score_map, Mapping):
        raise TypeError(f"score_map must be a mapping, not {type(score_map).__name__}")
    if len(score_map) < 2:
        raise ValueError("score_map must have at least two scores")
    return {
        _checked_score(score): check_text(f"the meaning of {score!r}", score_map[score])
        for score in score_map
    }


def _checked_score(score: object) -> float:
    if isinstance(score, bool) or not isinstance(score, (int, float)) or not math.isfinite(score):
        raise ValueError(f"scores must be finite numbers, not {score!r}")
    return float(score)
