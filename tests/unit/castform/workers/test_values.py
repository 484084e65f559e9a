"""Authors' values cross to another process: what can come back whole does, the rest says what it is."""

from __future__ import annotations

import asyncio
import datetime
import json
from dataclasses import dataclass
from fractions import Fraction

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from benchmax.envs import Example
from castform.gold import gold_text, read_gold
from castform.plugins import fingerprint_examples
from castform.plugins.fingerprints import hash_example
from castform.workers.values import RemotePayload, can_leave, decode_value, encode_value

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.dates()
    | st.datetimes()
    | st.times()
)
keys = st.text() | st.integers() | st.tuples(st.integers(), st.text()) | st.just("$")
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3)
    | st.lists(inner, max_size=3).map(tuple)
    | st.dictionaries(keys, inner, max_size=3)
    | st.sets(st.integers() | st.text(), max_size=3)
    | st.frozensets(st.integers(), max_size=3),
    max_leaves=10,
)  # fmt: skip


def cross(value):
    return decode_value(json.loads(json.dumps(encode_value(value))))


def types_of(value):
    if isinstance(value, dict):
        return [(types_of(k), types_of(v)) for k, v in value.items()]
    inner = [types_of(item) for item in value] if isinstance(value, (list, tuple)) else []
    return type(value), inner


@settings(deadline=None, max_examples=60)
@example({"$": "tuple", "v": [1]})
@example(10**5000)
@given(values)
def test_a_value_that_can_leave_comes_back_as_it_was(value):
    assert can_leave(value)
    back = cross(value)
    assert back == value and types_of(back) == types_of(value)


class Ratio(float):
    pass


@dataclass
class Point:
    x: int


@pytest.mark.parametrize("value", [Ratio(0.5), Point(1), Fraction(1, 2), [1, {"a": Point(1)}], object(), len])
def test_other_classes_stay_where_they_are(value):
    assert not can_leave(value)
    json.dumps(encode_value(value))


def nested(depth):
    value = 1
    for _ in range(depth):
        value = [value]
    return value


def test_the_deepest_nesting_leaves_and_one_level_more_does_not():
    assert can_leave(nested(100)) and not can_leave(nested(102))
    assert cross(nested(100)) == nested(100)


class Golds:
    """An environment as far as `read_gold` needs one."""

    def __init__(self, answer):
        self.gold = lambda example: answer


class Silent:
    pass


async def answer_later():
    return 1


@pytest.mark.parametrize(
    "make", [lambda: Fraction(1, 2), lambda: Point(3), lambda: datetime.date(2026, 1, 2), lambda: (4, 5)]
)
def test_an_answer_reads_the_same_from_a_worker(make):
    here, there = read_gold(Golds(make()), None), read_gold(Golds(cross(make())), None)
    assert gold_text(here) == gold_text(there)


@pytest.mark.parametrize("make", [Silent, lambda: b"raw", answer_later, lambda: Silent])
def test_an_answer_that_nobody_can_write_down_is_refused_in_the_same_words(make):
    with pytest.raises(RuntimeError) as here:
        read_gold(Golds(make()), None)
    with pytest.raises(RuntimeError) as there:
        read_gold(Golds(cross(make())), None)
    assert str(here.value) == str(there.value)


def test_a_payload_that_stays_counts_in_fingerprints_as_itself():
    original = Example("a", {"point": Point(1)})
    remote = Example("a", RemotePayload(cross(original.payload), hash_example(original)))
    other = Example("a", RemotePayload(cross(original.payload), "0" * 64))
    assert fingerprint_examples([remote]) == fingerprint_examples([original])
    assert fingerprint_examples([other]) != fingerprint_examples([original])
    assert remote.payload == RemotePayload({}, hash_example(original)) != other.payload
    assert dict(remote.payload).keys() == {"point"} and str(remote.payload["point"]) == str(Point(1))


def test_a_coroutine_is_closed_before_it_could_run():
    later = answer_later()
    encode_value(later)
    with pytest.raises(RuntimeError, match="cannot reuse already awaited"):
        asyncio.run(later)
