"""A rubric's functions as reward components, and their faults as faults: the library makes zeros of them."""

from __future__ import annotations

import functools
import inspect
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from benchmax.envs import RolloutFailure
from benchmax.envs.termination import describe_error

TOTAL = "reward"
"""Component with the rubric's own sum, where it is more than its functions' weighted sum."""
_PLAIN = frozenset({"verifiers.rubrics.rubric", "verifiers.rubrics.rubric_group"})
"""Where the scoring that is a weighted sum of functions is written."""
_faults: ContextVar[list[str] | None] = ContextVar("castform_env_verifiers_faults", default=None)


@dataclass(frozen=True, kw_only=True)
class RubricPlan:
    """What a rubric pays for."""

    weights: dict[str, float]
    """Component to weight."""
    has_total: bool
    """The sum is the rubric's own: functions are metrics beside it."""
    together: bool
    """A group is scored as one."""


def plan_rubric(rubric: Any) -> RubricPlan:
    """Return a rubric's components, and watch its functions from now on."""
    leaves = list(_list_leaves(rubric))
    for leaf in leaves:
        leaf.funcs = [_watch(function) for function in leaf.funcs]
    named = [
        (function.__name__, float(weight))
        for leaf in leaves
        for function, weight in zip(leaf.funcs, leaf.weights, strict=True)
    ]
    repeated = [name for name, count in Counter(name for name, _ in named).items() if count > 1]
    has_total = bool(repeated) or not all(_is_plain(part) for part in (rubric, *leaves))
    weights = {name: 0.0 for name, _ in named} if has_total else dict(named)
    return RubricPlan(
        weights={TOTAL: 1.0, **weights} if has_total else weights,
        has_total=has_total,
        together=bool(rubric.has_group_rewards),
    )


def read_rewards(state: Any, plan: RubricPlan) -> dict[str, float]:
    """Return the components of a state that the rubric has scored."""
    metrics = {str(name): float(value) for name, value in (state.get("metrics") or {}).items()}
    if plan.has_total:
        metrics[TOTAL] = float(state["reward"])
    return metrics


@contextmanager
def raise_faults() -> Iterator[None]:
    """Inside, what a reward function raises ends in RolloutFailure `reward_error`, whatever the rubric did with it."""
    token = _faults.set([])
    try:
        yield
        found = _faults.get()
    finally:
        _faults.reset(token)
    if found:
        raise RolloutFailure("reward_error", "; ".join(dict.fromkeys(found)))


def _list_leaves(rubric: Any) -> Iterator[Any]:
    """Yield every rubric with functions of its own, those inside groups included."""
    inner = [
        *getattr(rubric, "rubrics", ()),
        *(env.rubric for env in getattr(rubric, "env_map", {}).values()),
    ]
    if not inner or rubric.funcs:
        yield rubric
    for one in inner:
        yield from _list_leaves(one)


def _is_plain(rubric: Any) -> bool:
    methods = (type(rubric).score_rollout, type(rubric).score_group)
    return all(method.__module__ in _PLAIN for method in methods)


def _watch(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function, with what it raises noted before it is raised on. Watching twice is watching once."""
    if hasattr(function, "_castform_watched"):
        return function

    @functools.wraps(function)
    def watched(*args: Any, **kwargs: Any) -> Any:
        try:
            result = function(*args, **kwargs)
        except Exception as error:
            _note(function, error)
            raise
        return _watch_result(function, result) if inspect.isawaitable(result) else result

    watched._castform_watched = True  # type: ignore[attr-defined]  # a mark on our own function
    return watched


async def _watch_result(function: Callable[..., Any], result: Awaitable[Any]) -> Any:
    try:
        return await result
    except Exception as error:
        _note(function, error)
        raise


def _note(function: Callable[..., Any], error: Exception) -> None:
    faults = _faults.get()
    if faults is not None:
        faults.append(f"{getattr(function, '__name__', 'a reward function')}: {describe_error(error)}")
