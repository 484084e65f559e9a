"""Turn the scores of a group into advantages.

Pure Python on purpose: reports and the dashboard use it without torch. Sums are exact
(`math.fsum`), so members that were not scored cannot change a survivor by a single bit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Scale = Literal["none", "std", "rloo", "mean"]
"""none: centred (Dr. GRPO); std: GRPO; rloo: leave-one-out baseline; mean: MaxRL."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AdvantageConfig:
    """How a group's scores become advantages."""

    scale: Scale = "none"
    """What the centred score is divided by (`rloo` multiplies by G/(G-1))."""
    ddof: int = 1
    """Delta degrees of freedom of the standard deviation."""
    eps: float = 1e-4
    """Added to the standard deviation."""
    min_valid: int = 2
    """Fewer scored members than this carry no signal."""


def compute_advantages(
    scores: Sequence[float | None], config: AdvantageConfig = AdvantageConfig()
) -> list[float | None]:
    """Return one advantage per member, in group order; None where the member takes no part.

    A member without a score gets None and stays out of the baseline. Members of a group with
    too few scores, or whose scores are all equal, get exactly 0.0. (Shao et al. 2024, eq. 4;
    Liu et al. 2025 for the centred form.) Raises ValueError for a score that is not finite.
    """
    valid = [score for score in scores if score is not None]
    for score in valid:
        if not math.isfinite(score):
            raise ValueError(f"score {score!r} is not finite; a rollout without a score must be None")
    if not has_signal(scores, min_valid=config.min_valid):
        return [None if score is None else 0.0 for score in scores]
    mean = math.fsum(valid) / len(valid)
    factor = _scale_factor(valid, mean, config)
    return [None if score is None else (score - mean) * factor for score in scores]


def has_signal(scores: Sequence[float | None], *, min_valid: int = 2) -> bool:
    """True when at least `min_valid` members were scored and not all of them equally."""
    valid = [score for score in scores if score is not None]
    return len(valid) >= max(2, min_valid) and min(valid) != max(valid)


def discounted_returns(
    rewards: Sequence[float], mask: Sequence[int | bool], *, gamma: float = 1.0
) -> list[float]:
    """Return the discounted sum of rewards from each position on.

    Only sampled positions (mask 1) count as time steps: a reward passes over tool output
    undiscounted, and a position that was not sampled has return 0 of its own.
    """
    returns = [0.0] * len(rewards)
    following = 0.0
    for index in range(len(rewards) - 1, -1, -1):
        if mask[index]:
            following = rewards[index] + gamma * following
            returns[index] = following
        else:
            following += rewards[index]
    return returns


def _scale_factor(valid: Sequence[float], mean: float, config: AdvantageConfig) -> float:
    count = len(valid)
    if config.scale == "none":
        return 1.0
    if config.scale == "rloo":
        return count / (count - 1)
    if config.scale == "mean":
        return 1.0 / mean if mean else 0.0
    variance = math.fsum((score - mean) ** 2 for score in valid) / (count - config.ddof)
    return 1.0 / (math.sqrt(variance) + config.eps)
