from __future__ import annotations

import json
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

entries = pytest.importorskip(
    "castform_env_gym.entries", reason="without a C compiler castform-env-gym is not installed"
)
pack, unpack = entries.pack, entries.unpack
SIMPLE = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=5)
    | st.fractions()
)
KEYS = st.text(max_size=3) | st.integers() | st.sampled_from(["$tuple", "$pairs", "$fraction"])
VALUES = st.recursive(
    SIMPLE,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(KEYS | st.tuples(st.integers(), st.integers()), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(VALUES)
def test_an_entry_comes_back_from_json_as_it_was(value: object) -> None:
    back = unpack(json.loads(json.dumps(pack(value))))
    assert back == value
    assert repr(back) == repr(value)


def test_plain_entries_stay_readable() -> None:
    assert pack({"a": [1, "x", None]}) == {"a": [1, "x", None]}
    assert pack(Fraction(2, 3)) == {"$fraction": [2, 3]}
    assert pack((1, {2: 3})) == {"$tuple": [1, {"$pairs": [[2, 3]]}]}


def test_what_json_does_not_know_is_named() -> None:
    with pytest.raises(TypeError, match="holds a set"):
        pack({"a": [{1, 2}]})
