"""Deterministic rewards over every form of chunk, message and part, and at their boundaries."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest

from benchmax.rewards import (
    citation_score,
    clip01,
    count_search_calls,
    extract_answer_block,
    extract_completion_text,
    overlap_reward,
    percent_of_text_a_in_text_b,
    search_within_budget,
    tool_call_efficiency,
)
from benchmax.rewards.deterministic.completion import is_assistant, message_text
from benchmax.rewards.deterministic.overlap import chunk_content
from benchmax.rewards.rubric import Rubric
from benchmax.rewards.weighted import WeightedRewards

MARK = "<tool_call>"

# --- citations --------------------------------------------------------------------------------


class Chunk(SimpleNamespace):
    """A chunk as an object."""


@pytest.mark.parametrize(
    "chunk",
    [
        {"metadata": {"source_id": "a"}},
        MappingProxyType({"metadata": MappingProxyType({"source_id": "a"})}),
        {"metadata": [("source_id", "a")]},
        {"metadata": (("source_id", "a"),)},
        Chunk(metadata={"source_id": "a"}),
        Chunk(metadata=[["source_id", "a"]]),
        Chunk(metadata={"source_id": " a "}),
    ],
)
def test_a_source_is_found_in_every_form_of_chunk(chunk: Any) -> None:
    assert citation_score("[Source: a]", [chunk]) == {"precision": 1.0, "recall": 1.0}


@pytest.mark.parametrize(
    "chunk",
    [
        {},
        {"METADATA": {"source_id": "a"}},
        {"metadata": None},
        {"metadata": "source_id"},
        {"metadata": {"source_id": None}},
        {"metadata": {"source_id": "  "}},
        Chunk(),
        Chunk(metadata=5),
        "metadata",
    ],
)
def test_a_chunk_without_a_source_expects_nothing(chunk: Any) -> None:
    assert citation_score("[Source: a]", [chunk]) == {"precision": 0.0, "recall": 0.0}
    beside = [chunk, {"metadata": {"source_id": "a"}}]
    assert citation_score("[Source: a]", beside) == {"precision": 1.0, "recall": 1.0}


def test_the_first_filled_field_names_the_source() -> None:
    chunk = {"metadata": {"url": " ", "file": 7, "title": "t"}}
    fields = ["missing", "url", "file", "title"]
    assert citation_score("[source : 7]", [chunk], source_field=fields)["recall"] == 1.0
    assert citation_score("[source:t]", [chunk], source_field=fields)["recall"] == 0.0
    assert citation_score("[source:t]", [chunk], source_field="title")["recall"] == 1.0


def test_precision_and_recall_are_over_different_sets() -> None:
    chunks = [{"metadata": {"source_id": name}} for name in ("a", "b", "c", "d")]
    said = "x [Source: a] y [SOURCE:b][source: a] z [Source: q]"
    assert citation_score(said, chunks) == {"precision": 2 / 3, "recall": 0.5}


def test_a_mark_or_source_that_is_canonically_nothing_counts_nowhere() -> None:
    def without_x(text: str) -> str:
        return text.replace("x", "").strip()

    chunks = [{"metadata": {"source_id": name}} for name in ("x", "a")]
    assert citation_score("[Source: x][Source: a]", chunks, canonicalize=without_x) == {
        "precision": 1.0,
        "recall": 1.0,
    }
    assert citation_score("[Source: x]", chunks, canonicalize=without_x) == {"precision": 0.0, "recall": 0.0}
    assert citation_score("[Source:  ][Source: a]", chunks[1:]) == {"precision": 1.0, "recall": 1.0}


# --- overlap ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("chunk", "content"),
    [
        ({"content": "text"}, "text"),
        (Chunk(content="text"), "text"),
        (MappingProxyType({"content": "text"}), "text"),
        ({"content": None}, ""),
        ({"content": ["text"]}, ""),
        ({"CONTENT": "text"}, ""),
        (Chunk(), ""),
        (Chunk(content=3), ""),
        ("content", ""),
    ],
)
def test_a_chunks_content_as_key_or_attribute(chunk: Any, content: str) -> None:
    assert chunk_content(chunk) == content


@pytest.mark.parametrize(
    ("a", "b", "share"),
    [
        ("", "anything", 0.0),
        ("   ", "anything", 0.0),
        ("ab", "", 0.0),
        ("a", "a", 1.0),
        ("a", "b", 0.0),
        ("abc", "ab", 2 / 3),
        ("abc", "xbcx", 2 / 3),
        ("abcd", "abxxcd", 1.0),
        ("abcde", "abxcde", 3 / 5),
        ("a  b\n", "a b", 1.0),
        ("x" * 11 + "y" * 13, "x" * 11, 0.0),
        ("x" * 12 + "y" * 12, "x" * 12, 0.5),
        ("abcdefghijklmnopqrstuvwxyz", "abcdefghijkl", 12 / 26),
        ("abcdefghijklmnopqrstuvwxyz", "abcdefghijk", 0.0),
        ("abcdefghijklmnopqrstuvwxyz", "abcdefghijklm", 13 / 26),
        ("abcdefghijklmnopqrstuvwxyz", "opqrstuvwxyz-abcdefghijkl", 24 / 26),
    ],
)
def test_the_share_of_a_text_in_another(a: str, b: str, share: float) -> None:
    assert percent_of_text_a_in_text_b(a, b) == pytest.approx(share, abs=1e-12)


def test_the_reference_is_the_chunks_or_else_the_truth() -> None:
    chunks = [{"content": "first part"}, {"content": None}, Chunk(content="other half")]
    assert overlap_reward("first part other half", "truth", reference_chunks=chunks) == 1.0
    assert overlap_reward("truth", "truth", reference_chunks=chunks) == 0.0
    assert overlap_reward("truth", "truth", reference_chunks=[{"content": ""}]) == 1.0
    assert overlap_reward("42", 42) == 1.0
    assert overlap_reward("no <answer>42</answer> 43", 42) == 1.0
    assert overlap_reward("no <answer>43</answer> 42", 42) == 0.5


def test_an_overlap_counts_from_the_minimum_on() -> None:
    assert overlap_reward("aabb", "aabbccdd", minimum_overlap=0.5) == 0.5
    assert overlap_reward("aabb", "aabbccdd", minimum_overlap=0.51) == 0.0
    quarter = "abcdefghijkl" + "m" * 36
    assert overlap_reward("abcdefghijkl", quarter) == 0.25
    assert overlap_reward("abcdefghijkl", quarter + "m") == 0.0


@pytest.mark.parametrize(
    ("value", "clipped"),
    [
        (0.25, 0.25),
        (-0.1, 0.0),
        (1.1, 1.0),
        (True, 1.0),
        ("0.5", 0.5),
        ("half", 0.0),
        (None, 0.0),
        ([], 0.0),
        (math.nan, 0.0),
        (math.inf, 0.0),
        (-math.inf, 0.0),
        (10**400, 0.0),
    ],
)
def test_clipping(value: object, clipped: float) -> None:
    assert clip01(value) == clipped and isinstance(clip01(value), float)


# --- completions ------------------------------------------------------------------------------

ASSISTANT = {"role": "assistant", "content": " hi "}


@pytest.mark.parametrize(
    ("completion", "text"),
    [
        (" hi ", "hi"),
        ([], ""),
        ([ASSISTANT], "hi"),
        ([{"role": "user", "content": "q"}, MappingProxyType(ASSISTANT)], "hi"),
        ([ASSISTANT, {"role": "tool", "content": "t"}], ""),
        ([ASSISTANT, {"role": "ASSISTANT", "content": "t"}], ""),
        ([ASSISTANT, "hi"], ""),
        ([{"role": "assistant"}], ""),
        ([{"role": "assistant", "content": None}], ""),
        ([{"role": "assistant", "content": 5}], ""),
        ([{"role": "assistant", "content": ["a", "b"]}], "ab"),
        ([{"role": "assistant", "content": ({"type": "text", "text": "a"}, "b")}], "ab"),
        ([{"role": "assistant", "content": [{"type": "image_url"}, {"text": 5}, 7, {"text": "b"}]}], "b"),
        ([{"role": "assistant", "content": [MappingProxyType({"text": "a"})]}], "a"),
    ],
)
def test_the_text_of_a_completion(completion: Any, text: str) -> None:
    assert extract_completion_text(completion) == text


def test_what_is_no_message_has_no_role_and_no_text() -> None:
    assert not is_assistant("assistant") and not is_assistant(None)
    assert message_text("hi") == message_text(None) == ""


@pytest.mark.parametrize(
    ("text", "block", "strict"),
    [
        (None, "", ""),
        ("", "", ""),
        (" x ", "x", ""),
        ("a <answer> 1 </answer> b <answer>2</answer>", "1", "1"),
        ("a <ANSWER>1</Answer>", "1", "1"),
        ("</answer> x <answer>1</answer>", "1", "1"),
        ("<answer>1", "<answer>1", ""),
        ("1</answer>", "1</answer>", ""),
        ("</answer><answer>", "</answer><answer>", ""),
        ("<answer></answer>", "", ""),
    ],
)
def test_the_answer_block(text: str | None, block: str, strict: str) -> None:
    assert extract_answer_block(text) == block
    assert extract_answer_block(text, strict=True) == strict


# --- tool calls -------------------------------------------------------------------------------


def turn(*, calls: Any = None, content: Any = "", role: str = "assistant") -> dict[str, Any]:
    return {"role": role, "content": content, "tool_calls": calls}


@pytest.mark.parametrize(
    ("completion", "calls"),
    [
        ("", 0),
        (f"{MARK}{MARK} x {MARK}", 3),
        ([], 0),
        ([{"role": "assistant", "content": "x"}], 0),
        ([turn(calls=[{}, {}])], 2),
        ([turn(calls=({},))], 1),
        ([turn(calls={"a": 1})], 0),
        ([turn(calls="ab", content=MARK)], 1),
        ([turn(calls=[{}], content=MARK * 3)], 3),
        ([turn(calls=[{}] * 3, content=[{"text": MARK}])], 3),
        ([turn(calls=[{}]), turn(calls=[{}], role="user"), turn(calls=[{}])], 2),
    ],
)
def test_the_calls_of_a_completion(completion: Any, calls: int) -> None:
    assert count_search_calls(completion) == calls


class Frozen(Mapping[str, Any]):
    """A message of another kind than dict."""

    def __init__(self, **fields: Any) -> None:
        self.fields = fields

    def __getitem__(self, name: str) -> Any:
        return self.fields[name]

    def __iter__(self) -> Any:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)


def test_calls_are_counted_in_messages_of_any_mapping() -> None:
    assert count_search_calls([Frozen(role="assistant", content="", tool_calls=[{}, {}])]) == 2
    assert extract_completion_text([Frozen(role="assistant", content="hi")]) == "hi"


@pytest.mark.parametrize(("calls", "within"), [(0, True), (3, True), (4, False)])
def test_a_budget_includes_its_last_call(calls: int, within: bool) -> None:
    assert search_within_budget(calls, 3) is within


def test_calls_beyond_the_free_ones_decay() -> None:
    def worth(calls: int, **settings: Any) -> float:
        return tool_call_efficiency(MARK * calls, **settings)

    assert [worth(calls) for calls in (0, 1, 2)] == [1.0, 1.0, 1.0]
    assert worth(3) == math.exp(-0.2) and worth(5) == math.exp(-0.2 * 3)
    assert worth(10) == math.exp(-0.2 * 8) and worth(11) == 0.0
    assert worth(4, reference_chunk_count=2) == 1.0
    assert worth(5, reference_chunk_count=2, decay_rate=1.0, correctness=0.5) == 0.5 * math.exp(-1.0)
    assert worth(0, correctness=0) == worth(0, correctness=-0.5) == 0.0
    assert (
        worth(2) == worth(2, correctness=1.0) == 1.0
        and worth(2, max_calls=1) == 0.0
        and worth(2, max_calls=2) == 1.0
    )


async def test_a_function_is_given_the_completion_in_both_ways_of_scoring() -> None:
    rewards = WeightedRewards([(1.0, len)])
    assert rewards.score("abc")["reward"] == (await rewards.ascore("abc"))["reward"] == 3.0


def test_rubrics_that_differ_in_anything_hash_apart() -> None:
    rubrics = [
        Rubric("a", "d"),
        Rubric("b", "d"),
        Rubric("a", "e"),
        Rubric("a", "d", "negative"),
        Rubric("a", "d", score_map={0: "no", 1: "yes"}),
        Rubric("a", "d", score_map={0: "no", 2: "yes"}),
    ]
    assert len({hash(rubric) for rubric in rubrics}) == len(rubrics)


def test_ranges_decide_alone_and_the_first_one_wins() -> None:
    ranges = [(1, 2, 1.0), (2, 4, 0.5), (6, None, 0.25)]

    def worth(calls: int) -> float:
        return tool_call_efficiency(MARK * calls, ranges=ranges, correctness=0, max_calls=0)

    assert [worth(calls) for calls in range(8)] == [0.0, 1.0, 1.0, 0.5, 0.5, 0.0, 0.25, 0.25]
    assert tool_call_efficiency("", ranges=[]) == 0.0
