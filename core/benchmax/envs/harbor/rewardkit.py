"""Partial credit from what RewardKit wrote beside a reward: `verifier/reward-details.json`."""

from __future__ import annotations

import json
import logging
import math
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

DETAILS_FILE = "reward-details.json"
MAX_DETAILS_BYTES = 4 << 20
MAX_MISSES = 8
"""Most missed criteria that are logged."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Criterion:
    """One thing that was checked."""

    name: str
    value: float
    """0 to 1."""
    weight: float

    @property
    def impact(self) -> float:
        """How much of the weight was lost."""
        return self.weight * (1.0 - self.value)


def partial_credit(details: object) -> float | None:
    """Return the weighted mean of the criteria in a `reward-details.json`, 0 to 1.

    The criteria stand under `reward.criteria`, or `criteria`. None: there are none, their weights
    add up to nothing, or one of them is no criterion at all.
    """
    criteria = read_criteria(details)
    total = sum(criterion.weight for criterion in criteria or ())
    if not criteria or not total or not math.isfinite(total):
        return None
    return sum(criterion.weight * criterion.value for criterion in criteria) / total


def read_criteria(details: object) -> list[Criterion] | None:
    """Return the criteria, values cut to 0..1; None where they are missing or one is invalid."""
    if not isinstance(details, Mapping):
        return None
    reward = details.get("reward")
    found = reward.get("criteria") if isinstance(reward, Mapping) else None
    found = details.get("criteria") if found is None else found
    if not isinstance(found, list) or not found:
        return None
    criteria = [_read_criterion(item, place) for place, item in enumerate(found)]
    return [item for item in criteria if item is not None] if None not in criteria else None


def _read_criterion(item: object, place: int) -> Criterion | None:
    if not isinstance(item, Mapping):
        return None
    value, weight = _number(item.get("value", 0.0)), _number(item.get("weight", 1.0))
    if value is None or weight is None or weight < 0:
        return None
    name = item.get("name") or item.get("id") or f"criterion {place + 1}"
    return Criterion(name=str(name), value=min(1.0, max(0.0, value)), weight=weight)


def _number(value: object) -> float | None:
    if isinstance(value, bool):
        return float(value)  # a criterion that was met, or not
    if not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def add_partial_credit(rewards: Mapping[str, float], trial_dir: Path) -> dict[str, float]:
    """Return the rewards with `partial_credit`, where there is a `reward` without one and details exist."""
    scored = dict(rewards)
    if "reward" not in scored or "partial_credit" in scored:
        return scored
    details = _read_details(trial_dir / "verifier" / DETAILS_FILE)
    credit = partial_credit(details)
    if credit is None:
        return scored
    scored["partial_credit"] = credit
    misses = sorted((c for c in read_criteria(details) or () if c.value < 1), key=lambda c: -c.impact)
    logger.info(
        "harbor.rewardkit reward=%s partial_credit=%.4f missed: %s",
        scored["reward"],
        credit,
        ", ".join(f"{c.name} ({c.value:g} of weight {c.weight:g})" for c in misses[:MAX_MISSES]) or "none",
    )
    return scored


def _read_details(path: Path) -> object:
    """Read a file that came out of a box: regular, no link, of bounded size, or it does not count."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > MAX_DETAILS_BYTES:
            logger.warning(
                "harbor.rewardkit %s is no regular file of at most %d bytes", path, MAX_DETAILS_BYTES
            )
            return None
        with open(descriptor, "rb", closefd=False) as file:
            data = file.read(MAX_DETAILS_BYTES + 1)
    finally:
        os.close(descriptor)
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None
