"""What counts as a reward: named, numeric, finite."""

from __future__ import annotations

import math
from collections.abc import Coroutine, Mapping

RewardMap = Mapping[str, float]
"""Named reward components of one rollout."""


def check_rewards(rewards: object) -> dict[str, float]:
    """Return a copy of a reward map, numbers as plain `int` or `float`.

    TypeError: not a mapping. ValueError: a blank name, or a value that is not a finite
    int or float (a bool, text, a NumPy float32 or a tensor is none).
    """
    if not isinstance(rewards, Mapping):
        _drop_unawaited(rewards)
        raise TypeError(f"rewards must be a mapping, not {type(rewards).__name__}")
    return {_checked_name(name): _checked_value(name, value) for name, value in rewards.items()}


def _drop_unawaited(value: object) -> None:
    """Close a coroutine that nobody will await: the error says it, a warning of Python's need not."""
    if isinstance(value, Coroutine):
        value.close()


def _checked_name(name: object) -> str:
    if not isinstance(name, str) or not name.strip():
        raise ValueError(f"reward names must be non-empty strings, not {name!r}")
    return name


def _checked_value(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        _drop_unawaited(value)
        raise ValueError(f"reward '{name}' must be numeric, not {type(value).__name__}")
    if isinstance(value, float):
        plain: float = float(value)
        if not math.isfinite(plain):
            raise ValueError(f"reward '{name}' must be finite, not {plain}")
        return plain
    try:
        float(value)
    except OverflowError as error:
        raise ValueError(f"reward '{name}' must be finite; the integer is too large for a float") from error
    return int(value)
