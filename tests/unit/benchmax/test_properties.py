"""Laws: example ids depend on content alone, rewards are numbers or refused, numbers match by value."""

from __future__ import annotations

import json
import math
import pickle
import subprocess
import sys
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmax.envs import RolloutFailure, RolloutOutcome, StaticBearerAuth, canonical_example_id
from benchmax.envs.identity import MAX_NESTING, MAX_SAFE_INTEGER
from benchmax.rewards import match_answer

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
NUMBERS = st.integers(-MAX_SAFE_INTEGER, MAX_SAFE_INTEGER) | st.floats(-1e15, 1e15)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


def shuffled(value: Any) -> Any:
    """The same JSON with keys in another order, tuples for lists and floats for integers."""
    if isinstance(value, dict):
        return {key: shuffled(item) for key, item in reversed(value.items())}
    if isinstance(value, list):
        return tuple(shuffled(item) for item in value)
    if isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return value


@settings(deadline=None)
@given(JSON)
def test_an_id_survives_another_spelling_and_a_json_round_trip(value: Any) -> None:
    example_id = canonical_example_id(value)
    assert canonical_example_id(shuffled(value)) == example_id
    assert canonical_example_id(json.loads(json.dumps(value))) == example_id


@settings(deadline=None)
@given(JSON, JSON)
def test_ids_are_equal_only_for_equal_content(one: Any, other: Any) -> None:
    def tagged(value: Any) -> Any:  # booleans told apart from numbers
        if isinstance(value, bool):
            return ("bool", value)
        if isinstance(value, dict):
            return {key: tagged(item) for key, item in value.items()}
        return [tagged(item) for item in value] if isinstance(value, list) else value

    same = tagged(one) == tagged(other)
    assert (canonical_example_id(one) == canonical_example_id(other)) == same


def test_nesting_is_bounded_by_an_error_not_by_the_stack() -> None:
    value: Any = []
    for _ in range(MAX_NESTING):
        value = [value]
    canonical_example_id(value)
    with pytest.raises(ValueError, match="nested deeper"):
        canonical_example_id([value])
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(ValueError, match="nested deeper"):
        canonical_example_id(endless)


@settings(deadline=None)
@given(st.dictionaries(TEXT, st.integers() | st.floats() | st.booleans() | st.text() | st.none(), max_size=3))
def test_rewards_are_finite_named_numbers_or_refused(rewards: Any) -> None:
    def acceptable(name: str, value: object) -> bool:
        return (
            bool(name.strip())
            and isinstance(value, (int, float))
            and not isinstance(value, bool)
            and abs(value) <= sys.float_info.max
        )

    if all(acceptable(name, value) for name, value in rewards.items()):
        kept = RolloutOutcome(rewards, "finished").rewards
        assert kept == rewards and all(math.isfinite(value) for value in kept.values())
    else:
        with pytest.raises((TypeError, ValueError)):
            RolloutOutcome(rewards, "finished")


@settings(deadline=None)
@given(
    st.fractions(max_denominator=10**6),
    TEXT.filter(lambda text: not any(c.isalnum() or c in "<\\" for c in text)),
)
def test_a_number_matches_itself_however_it_is_introduced(number: Fraction, noise: str) -> None:
    assert match_answer(f"So I get {number}", str(number)) == 1.0
    assert match_answer(f"{noise} \\boxed{{{number}}}", str(number)) == 1.0
    assert match_answer(f"So I get {number + 1}", str(number)) == 0.0


@settings(deadline=None)
@given(TEXT, TEXT)
def test_matching_any_text_gives_zero_or_one(text: str, gold: str) -> None:
    assert match_answer(text, gold) in (0.0, 1.0)


def test_what_crosses_processes_pickles() -> None:
    failure = pickle.loads(pickle.dumps(RolloutFailure("tool_error", "no")))
    assert (failure.termination_reason, str(failure)) == ("tool_error", "no")
    assert pickle.loads(pickle.dumps(StaticBearerAuth("k"))) == StaticBearerAuth("k")


def test_importing_the_environments_loads_no_heavy_package() -> None:
    code = "import sys, benchmax.envs, benchmax.rewards, benchmax.auth; print(sorted(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    loaded = done.stdout
    for heavy in ("aiohttp", "openai", "httpx", "pydantic", "cloudpickle", "torch", "castform"):
        assert f"'{heavy}'" not in loaded, heavy
