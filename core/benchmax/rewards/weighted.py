"""Several reward functions as one number. A defect in one of them is never a score."""

from __future__ import annotations

import inspect
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias, TypedDict

from benchmax.envs.reward_values import check_rewards
from benchmax.envs.termination import describe_error
from benchmax.rewards.concurrency import gather_or_cancel
from benchmax.rewards.deterministic import Completion

RewardFunction: TypeAlias = Callable[[Any], float | Awaitable[float]]
"""Takes what is scored, a completion as a rule, and returns a number; it may be `async`."""
# Any: a function says itself whether it takes a text or a transcript.


SUM = "weighted sum"
"""Where an error stands that is no single function's."""


class WeightedScore(TypedDict):
    """What the functions said of one completion."""

    reward: float | None
    """The weighted sum. None: a function with a weight gave no number, so there is no score."""
    metrics: dict[str, float | None]
    """What each function returned, by name, in their order; None for what is no number."""
    errors: dict[str, str]
    """What went wrong, by the name of the function."""


class WeightedRewards:
    """Adds up what its functions return, each times its weight.

    A weight of 0 makes a function a metric: it is called and reported, and whatever it
    does, the reward stays. ValueError or TypeError when it is built: no terms, a weight
    that is no finite number, no weight other than 0, or something that cannot be called.
    """

    def __init__(self, terms: Sequence[tuple[float, RewardFunction]]) -> None:
        self._terms: dict[str, tuple[float, RewardFunction]] = {}
        for weight, function in terms:
            name = self._unused_name(function)
            self._terms[name] = (_checked_weight(name, weight), function)
        if not any(weight for weight, _ in self._terms.values()):
            raise ValueError("rewards need at least one term with a weight other than 0")

    @property
    def weights(self) -> dict[str, float]:
        """The weights by name; equal names are numbered."""
        return {name: weight for name, (weight, _) in self._terms.items()}

    def score(self, completion: Completion) -> WeightedScore:
        """Score a completion. What an `async` function returns here is an error: see `ascore`."""
        results = [self._call(name, completion) for name in self._terms]
        return self._summed([_refused_awaitable(result) for result in results])

    async def ascore(self, completion: Completion) -> WeightedScore:
        """Score a completion; functions that are `async` run at the same time."""
        results = [self._call(name, completion) for name in self._terms]
        return self._summed(await gather_or_cancel(_settled(result) for result in results))

    def _call(self, name: str, completion: Completion) -> object:
        try:
            return self._terms[name][1](completion)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the author's reward function
            return error

    def _summed(self, results: Sequence[object]) -> WeightedScore:
        metrics: dict[str, float | None] = {}
        errors: dict[str, str] = {}
        reward: float | None = 0.0
        for (name, (weight, _)), result in zip(self._terms.items(), results, strict=True):
            metrics[name], error = _metric_of(name, result)
            if error is not None:
                errors[name] = error
            value = metrics[name]
            if weight:
                reward = None if reward is None or value is None or error else reward + weight * value
        if reward is not None and not math.isfinite(reward):
            reward, errors[SUM] = None, f"the weighted sum is {reward}"
        return {"reward": reward, "metrics": metrics, "errors": errors}

    def _unused_name(self, function: RewardFunction) -> str:
        if not callable(function):
            raise TypeError(f"a term is (weight, function), and {function!r} cannot be called")
        base = getattr(function, "__name__", type(function).__name__)
        number, name = 1, base
        while name in self._terms:
            number += 1
            name = f"{base}_{number}"
        return name


def _metric_of(name: str, result: object) -> tuple[float | None, str | None]:
    """Return what to report of a result, and what is wrong with it, if anything is."""
    if isinstance(result, BaseException):
        return None, describe_error(result)
    try:
        return check_rewards({name: result})[name], None
    except (TypeError, ValueError) as error:
        return result if isinstance(result, float) else None, str(error)


def _refused_awaitable(result: object) -> object:
    if not inspect.isawaitable(result):
        return result
    if inspect.iscoroutine(result):
        result.close()
    return TypeError("the function is async; use `await ascore(...)`")


async def _settled(result: object) -> object:
    try:
        return await result if inspect.isawaitable(result) else result
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the author's reward function
        return error


def _checked_weight(name: str, weight: object) -> float:
    if isinstance(weight, bool) or not isinstance(weight, (int, float)):
        raise TypeError(f"the weight of {name!r} must be a number, not {type(weight).__name__}")
    if not math.isfinite(weight):
        raise ValueError(f"the weight of {name!r} must be finite, not {weight}")
    return float(weight)
