from __future__ import annotations

import random

import pytest
from castform_env_code.candidate_child import decode, encode
from castform_env_code.comparing import is_same
from castform_env_code.replies import fenced, read_code
from castform_env_code.tasks import load_tasks
from castform_env_code.tasks.task import (
    Task,
    chance_share,
    make_hidden,
    make_shown,
    read_reference,
    read_signature,
    read_statement,
    split_of,
)
from hypothesis import given, settings
from hypothesis import strategies as st

TASKS = load_tasks()
every_task = pytest.mark.parametrize("task", TASKS.values(), ids=TASKS.keys())


@every_task
def test_a_task_is_whole(task: Task) -> None:
    signature, statement = read_signature(task), read_statement(task)
    assert signature.startswith(f"def {task.name}(") and "->" in signature
    assert statement.endswith(".") and len(statement) < 200
    hidden, shown = make_hidden(task, count=12, seed=0), make_shown(task)
    assert len(hidden) >= 6
    calls = [repr(test.arguments) for test in (*shown, *hidden)]
    assert len(set(calls)) == len(calls)
    assert shown[0].expected != shown[1].expected
    assert chance_share(hidden) < 0.6


@every_task
def test_the_reference_alone_passes_its_tests_and_reads_no_globals(task: Task) -> None:
    space: dict[str, object] = {}
    exec(read_reference(task), space)
    function = space[task.name]
    assert '"""' not in read_reference(task) and "@" not in read_reference(task)
    for test in make_hidden(task, count=20, seed=3):
        arguments = [decode(encode(argument)) for argument in test.arguments]
        assert is_same(encode(function(*arguments)), test.expected)


def test_there_are_enough_tasks_on_both_sides_of_every_level() -> None:
    assert len(TASKS) == 66
    for level in (1, 2, 3):
        splits = [split_of(task.name) for task in TASKS.values() if task.level == level]
        assert splits.count("train") >= 10 and splits.count("eval") >= 6


def test_the_seed_decides_the_hidden_tests() -> None:
    task = TASKS["digit_sum"]
    random.seed(1)
    before = random.getstate()
    first = make_hidden.__wrapped__(task, count=12, seed=1)
    assert random.getstate() == before
    assert first == make_hidden.__wrapped__(task, count=12, seed=1)
    assert first != make_hidden(task, count=12, seed=2)
    assert first[:3] == make_hidden(task, count=12, seed=2)[:3]  # the edges
    assert [test.arguments for test in first[:3]] == list(task.edges)


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.integers() | st.text(max_size=3), inner, max_size=3)
        | st.sets(st.integers() | st.booleans(), max_size=3)
    ),
    max_leaves=8,
)


@given(PLAIN)
@settings(deadline=None, max_examples=80)
def test_every_plain_value_comes_back_as_it_was(value: object) -> None:
    encoded = encode(value)
    assert is_same(encode(decode(encoded)), encoded)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, True),
        (1, 1.0),
        (0, False),
        ("", None),
        ([1], (1,)),
        ({1}, [1]),
        ({}, set()),
        ({}, []),
        ({"a": 1}, {"a": 1, "b": 2}),
        ({"a": 1}, {"a": True}),
        ({1: "a"}, {True: "a"}),
        ("1", 1),
        (1.0, 1.001),
        (float("nan"), 0.0),
        (float("inf"), float("-inf")),
        ([[1]], [[1], []]),
    ],
)
def test_values_of_other_types_are_not_the_same(one: object, other: object) -> None:
    assert not is_same(encode(one), encode(other))
    assert not is_same(encode(other), encode(one))
    assert is_same(encode(one), encode(one)) and is_same(encode(other), encode(other))


def test_order_of_dictionaries_and_rounding_of_floats_do_not_matter() -> None:
    assert is_same(encode({"a": 1, "b": 2}), encode({"b": 2, "a": 1}))
    assert is_same(encode(0.1 + 0.2), encode(0.3))
    assert is_same(encode(float("nan")), encode(float("nan")))


@pytest.mark.parametrize(
    "forged",
    [
        {"float": [1]},
        {"float": "x"},
        {"list": 3},
        {"list": {"0": 1}},
        {"dict": [[1]]},
        {"dict": [1]},
        {"set": "1"},
        {"value": 1},
        {},
        {"float": "1", "list": []},
        [1],
    ],
)
def test_odd_lines_of_a_candidate_are_equal_to_nothing(forged: object) -> None:
    for expected in (1, 1.0, [1], {1: 2}, {1}, None, "1"):
        assert not is_same(forged, encode(expected))
    nested: object = 1
    for _ in range(500):
        nested = {"list": [nested]}
    assert not is_same(nested, nested)


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        ("```python\ndef f(): pass\n```", "def f(): pass"),
        ("Here it is: ```python\ndef f(): pass\n```", "def f(): pass"),
        ("```\nx\n```\nor\n```py\ndef f(): pass\n```\nDone.", "def f(): pass"),
        ("```python\ndef f():\n    return 1", "def f():\n    return 1"),
        ("```python\na\n```\n```python\nb", "b"),
        ("def f(): pass", "def f(): pass"),
        ("<think>```python\nx\n```</think>```python\ny\n```", "y"),
        ("<think>```python\nx\n```", None),
        ("I do not know.", None),
        ("```python\n\n```", None),
        ("", None),
    ],
)
def test_the_last_block_of_a_reply_is_its_code(reply: str, code: str | None) -> None:
    assert read_code(reply) == code
    if code is not None:
        assert read_code(fenced(code)) == code
