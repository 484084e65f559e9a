"""Keep, for each prompt, the rubrics that told its answers apart best. In memory, bounded."""

from __future__ import annotations

import math
import statistics
from collections import OrderedDict
from collections.abc import Sequence
from hashlib import sha256
from typing import NamedTuple

from benchmax.rewards.adaptive.rubrics import AdaptiveRubrics
from benchmax.rewards.rubric import Rubric
from benchmax.rewards.rubric.rubric import rubric_name


class _Kept(NamedTuple):
    rubric: Rubric
    spread: float


class RubricCache:
    """The best rubrics of the prompts seen last; keep one for as long as the environment lives.

    At most `max_per_polarity` positive and as many negative rubrics a prompt, and at
    most `max_prompts` prompts: the one not used for longest goes first.
    """

    def __init__(self, max_per_polarity: int = 3, *, max_prompts: int = 4096) -> None:
        for name, value in (("max_per_polarity", max_per_polarity), ("max_prompts", max_prompts)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} must be an integer of at least 1, not {value!r}")
        self.max_per_polarity = max_per_polarity
        self.max_prompts = max_prompts
        self._prompts: OrderedDict[str, dict[str, list[_Kept]]] = OrderedDict()

    def __len__(self) -> int:
        """How many prompts have rubrics."""
        return len(self._prompts)

    def get(self, prompt: str) -> AdaptiveRubrics:
        """Return the prompt's rubrics, the most telling first; none for a prompt that is not kept."""
        key = prompt_key(prompt)
        if key not in self._prompts:
            return AdaptiveRubrics()
        self._prompts.move_to_end(key)
        kept = self._prompts[key]
        return AdaptiveRubrics(
            positive=tuple(one.rubric for one in kept["positive"]),
            negative=tuple(one.rubric for one in kept["negative"]),
        )

    def consider(self, prompt: str, rubric: Rubric, scores: Sequence[float]) -> bool:
        """Take the rubric in if it tells answers apart well enough, and return whether it was taken.

        `scores` are its scores of the answers to one prompt. Rubrics are ranked by their
        standard deviation (of the population), then by title. The latest scores count:
        the rubric takes the place of one with its name and polarity, and when they
        are all equal that one goes. Fewer than two say nothing and change nothing.
        ValueError: a score is not finite.
        """
        if not all(math.isfinite(score) for score in scores):
            raise ValueError(f"rubric {rubric.title!r} has scores that are not finite: {list(scores)}")
        if len(scores) < 2:
            return False
        key, name = prompt_key(prompt), rubric_name(rubric)
        kept = self._prompts.pop(key, {"positive": [], "negative": []})
        rivals = [one for one in kept[rubric.polarity] if rubric_name(one.rubric) != name]
        if len(set(scores)) > 1:
            rivals.append(_Kept(rubric, statistics.pstdev(scores)))
        rivals.sort(key=lambda one: (-one.spread, one.rubric.title))
        kept[rubric.polarity] = rivals[: self.max_per_polarity]
        if any(kept.values()):
            self._prompts[key] = kept  # at the end: used last
        if len(self._prompts) > self.max_prompts:
            self._prompts.popitem(last=False)
        return any(one.rubric is rubric for one in kept[rubric.polarity])


def prompt_key(prompt: str) -> str:
    """Return what a prompt's rubrics are kept under: its SHA-256, in hexadecimal."""
    return sha256(prompt.encode("utf-8", "surrogatepass")).hexdigest()
