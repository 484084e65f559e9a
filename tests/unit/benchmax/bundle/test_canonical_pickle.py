"""Pickles in canonical form: they load as before, and equal content has one form."""

from __future__ import annotations

import collections
import functools
import io
import pickle
import random
import sys
from typing import Any, ClassVar

import cloudpickle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmax.bundle.canonical_pickle import canonical_pickle
from benchmax.bundle.errors import BundlingError
from benchmax.bundle.pickle_graph import called, parse_pickle, walk

ATOMS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(max_size=8)
    | st.binary(max_size=8)
)
HASHABLE = st.recursive(
    ATOMS, lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=4), max_leaves=12
)
VALUES = st.recursive(
    ATOMS | st.sets(HASHABLE, max_size=5) | st.binary(max_size=4).map(bytearray),
    lambda inner: (
        st.lists(inner, max_size=4) | st.tuples(inner, inner) | st.dictionaries(HASHABLE, inner, max_size=4)
    ),
    max_leaves=25,
)


def canonical(value: object, protocol: int = 5) -> bytes:
    return canonical_pickle(pickle.dumps(value, protocol)).data


def same(one: Any, other: Any) -> bool:
    """Compare with types, so that 1, True and 1.0 are three things, also inside."""
    return repr_of(one) == repr_of(other)


def repr_of(value: Any) -> str:
    if isinstance(value, (set, frozenset)):
        return f"{type(value).__name__}{sorted(map(repr_of, value))}"
    if isinstance(value, dict):
        return f"dict{[(repr_of(k), repr_of(v)) for k, v in value.items()]}"
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__}{[*map(repr_of, value)]}"
    return f"{type(value).__name__}:{value!r}"


@given(VALUES)
@settings(deadline=None)
def test_the_canonical_form_loads_as_the_same_value(value: object) -> None:
    assert same(pickle.loads(canonical(value)), value)


@given(VALUES)
@settings(deadline=None)
def test_the_canonical_form_is_its_own_canonical_form(value: object) -> None:
    once = canonical(value)
    assert canonical_pickle(once).data == once


@pytest.mark.parametrize("protocol", [3, 4, 5])
@given(value=VALUES)
@settings(max_examples=40, deadline=None)
def test_protocols_3_to_5_are_read(protocol: int, value: object) -> None:
    assert same(pickle.loads(canonical(value, protocol)), value)


@pytest.mark.parametrize("protocol", [0, 1, 2])
def test_older_protocols_are_refused(protocol: int) -> None:
    with pytest.raises(BundlingError, match="not a pickle of protocol 3 or later"):
        canonical([1], protocol)


class _InOrder(pickle._Pickler):  # type: ignore[name-defined]  # the Python pickler is not in the stubs
    """Writes sets in an order that is shuffled by a seed, as processes with other hash seeds do."""

    def __init__(self, stream: io.BytesIO, seed: int) -> None:
        super().__init__(stream, 5)
        self._random = random.Random(seed)

    def save_set(self, value: set[Any]) -> None:
        self.write(pickle.EMPTY_SET)
        self.memoize(value)
        self._save_items(value)
        self.write(pickle.ADDITEMS)

    def save_frozenset(self, value: frozenset[Any]) -> None:
        self._save_items(value)
        self.write(pickle.FROZENSET)
        self.memoize(value)

    def _save_items(self, value: Any) -> None:
        items = sorted(value, key=repr_of)
        self._random.shuffle(items)
        self.write(pickle.MARK)
        for item in items:
            self.save(item)

    dispatch: ClassVar = {**pickle._Pickler.dispatch, set: save_set, frozenset: save_frozenset}  # type: ignore[attr-defined]


def dumps_in_order(value: object, seed: int) -> bytes:
    stream = io.BytesIO()
    _InOrder(stream, seed).dump(value)
    return stream.getvalue()


@given(st.sets(HASHABLE, max_size=8) | VALUES, st.integers(0, 10**6))
@settings(deadline=None)
def test_the_order_of_sets_does_not_show(value: Any, seed: int) -> None:
    shuffled = dumps_in_order(value, seed)
    assert canonical_pickle(shuffled).data == canonical_pickle(dumps_in_order(value, seed + 1)).data
    assert same(pickle.loads(canonical_pickle(shuffled).data), value)


def test_which_equal_strings_are_one_object_does_not_show() -> None:
    text, twin = "".join(["ab", "c"]), "".join(["a", "bc"])
    assert text is not twin
    assert canonical([text, text, (text, b"x")]) == canonical([text, twin, (twin, b"x")])


def test_equal_things_of_different_types_stay_apart() -> None:
    value = [1, True, 1.0, 0, False, 0.0, -0.0, "1", b"1", (1,), (True,), (1.0,)]
    assert repr_of(pickle.loads(canonical(value))) == repr_of(value)


def test_shared_mutable_objects_stay_shared_and_equal_ones_apart() -> None:
    shared, twin = [1], [1]
    one, same_one, other = pickle.loads(canonical([shared, shared, twin]))
    assert one is same_one and one is not other


def test_cycles_keep_their_shape() -> None:
    inner: list[Any] = []
    loop = (inner, {"self": inner})
    inner.append(loop)
    loaded = pickle.loads(canonical(loop))
    assert loaded[0][0] is loaded and loaded[1]["self"] is loaded[0]

    class Friend:
        pass

    one, other = Friend(), Friend()
    one.friends, other.friends = {other}, {one}  # type: ignore[attr-defined]
    back = pickle.loads(canonical_pickle(cloudpickle.dumps(one)).data)
    [second] = back.friends
    assert second.friends == {back} and type(second) is type(back)


def test_deep_nesting_is_written_without_recursion() -> None:
    data = b"\x80\x05" + b"]" * 50_000 + b"a" * 49_999 + b"."
    written = canonical_pickle(data).data
    assert written == data


def test_many_objects_get_long_references() -> None:
    lists: list[list[int]] = [[n] for n in range(70_000)]
    loaded = pickle.loads(canonical([lists, lists[::-1]]))
    assert loaded[0][65_999] is loaded[1][4000] and loaded[0][65_999] == [65_999]


def test_objects_with_every_kind_of_reduction_load() -> None:
    value = [
        collections.OrderedDict(a=1),
        collections.Counter("aab"),
        collections.deque([1, 2], maxlen=3),
        functools.partial(int, base=2),
        range(3),
        slice(1, 2),
        complex(1, 2),
        Exception("x", 1).args,
        _Slots(7),
        _WithArguments(a=1),
    ]
    loaded = pickle.loads(canonical(value))
    assert loaded[:3] == value[:3] and loaded[3]("11") == 3 and loaded[4:8] == value[4:8]
    assert loaded[8].number == 7 and loaded[9].a == 1


class _Slots:
    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


class _WithArguments:
    def __new__(cls, *, a: int) -> _WithArguments:
        made = super().__new__(cls)
        made.a = a
        return made

    a: int

    def __getnewargs_ex__(self) -> tuple[tuple[()], dict[str, int]]:
        return (), {"a": self.a}


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "not a pickle"),
        (b"junk", "not a pickle"),
        (b"\x80\x05K\x01", "not a pickle"),
        (b"\x80\x05K\x01.more", "bytes follow the end"),
        (b"\x80\x05K\x01K\x02.", "leaves objects on its stack"),
        (b"\x80\x05.", "no object where it needs one"),
        (b"\x80\x05(.", "no object where it needs one"),
        (b"\x80\x05(\x94.", "no object where it needs one"),
        (b"\x80\x05h\x07.", "not a pickle"),
        (b"\x80\x05K\x01e.", "not a pickle"),
        (b"\x80\x05Pname\n.", "uses PERSID, which bundles never do"),
        (b"\x80\x05\x82\x01.", "uses EXT1, which bundles never do"),
        (b"\x80\x05\x97.", "uses NEXT_BUFFER, which bundles never do"),
        (b"\x80\x05(cbuiltins\nint\no.", "uses OBJ, which bundles never do"),
        (b"\x80\x05(ibuiltins\nint\n.", "uses INST, which bundles never do"),
    ],
)
def test_what_is_no_pickle_of_ours_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(BundlingError, match=words):
        canonical_pickle(data)


@given(st.binary(max_size=60))
@settings(max_examples=300, deadline=None)
def test_arbitrary_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        canonical_pickle(b"\x80\x05" + data)
    except BundlingError:
        pass


def test_reading_a_pickle_runs_nothing() -> None:
    root = parse_pickle(pickle.dumps(_Bomb()))
    assert [called(node) for node in walk(root) if called(node)] == [("sys", "exit")]


class _Bomb:
    def __reduce__(self) -> Any:
        return sys.exit, (3,)


def test_class_ids_follow_from_the_content() -> None:
    def make(number: int) -> bytes:
        class Local:
            value = number

        return cloudpickle.dumps((Local, Local()))

    one, again, other = (canonical_pickle(make(n)) for n in (1, 1, 2))
    assert one.data == again.data != other.data
    assert set(one.tracker_ids.values()) == set(again.tracker_ids.values())
    assert set(one.tracker_ids) != set(again.tracker_ids)
    assert set(one.tracker_ids.values()).isdisjoint(other.tracker_ids.values())


@given(VALUES)
@settings(deadline=None)
def test_which_equal_tuples_are_one_object_does_not_show(value: Any) -> None:
    copied = pickle.loads(pickle.dumps(value))
    pair = ("text", (1, "text"))
    twin = pickle.loads(pickle.dumps(pair))
    assert pair is not twin
    assert canonical((pair, pair, copied)) == canonical((pair, twin, value))
