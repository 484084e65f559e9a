"""Rewards where a looser measure is known to go wrong."""

from __future__ import annotations

import random
import time
from difflib import SequenceMatcher

import pytest

from benchmax.rewards import (
    count_search_calls,
    extract_completion_text,
    match_answer,
    overlap_reward,
    percent_of_text_a_in_text_b,
    tool_call_efficiency,
)
from benchmax.testing import function_call

WORDS = "pump tank valve pressure restart sensor water level alarm operator manual filter the a of when is and to".split()


def prose(words: int, seed: int) -> str:
    generator = random.Random(seed)
    return " ".join(generator.choice(WORDS) + str(generator.randrange(30)) for _ in range(words))


@pytest.mark.parametrize("words", [20, 120, 400])
def test_a_reference_with_every_tenth_word_changed_is_mostly_found(words: int) -> None:
    reference = prose(words, seed=1)
    said = " ".join("other" if i % 10 == 5 else word for i, word in enumerate(reference.split()))
    assert 0.7 < percent_of_text_a_in_text_b(reference, said) < 0.95


@pytest.mark.parametrize(("words", "chars"), [(127, 882), (384, 2755)])
def test_a_long_reference_counts_as_exact_matching_would_count_it(words: int, chars: int) -> None:
    reference = prose(words, seed=1)
    said = " ".join("other" if i % 10 == 5 else word for i, word in enumerate(reference.split()))
    blocks = SequenceMatcher(None, reference, said, autojunk=False).get_matching_blocks()
    exact = sum(block.size for block in blocks) / len(reference)
    share = percent_of_text_a_in_text_b(reference, said)
    assert len(reference) == chars
    assert exact - 0.03 < share <= exact
    assert share > 0.83


def test_two_unrelated_short_sentences_score_below_the_default_minimum() -> None:
    sentences = [
        "The invoice was paid on Friday.",
        "Whales are mammals, not fish.",
        "Turn left after the old bridge.",
        "The password expires in ten days.",
        "Her brother plays the violin well.",
        "Water boils at 100 degrees Celsius.",
        "The meeting moved to room twelve.",
        "Most of the seats were still empty.",
    ]
    for one in sentences:
        for other in sentences:
            share = percent_of_text_a_in_text_b(one, other)
            assert share == 1.0 if one == other else share < 0.25, (one, other)


def test_unrelated_sentences_do_not_overlap() -> None:
    sentences = [
        "The cat sat on the mat near the door.",
        "Quantum computers factor large integers quickly.",
        "Our refund policy allows returns within 30 days of purchase.",
        "Please restart the server after you change the configuration file.",
        "Photosynthesis converts light energy into chemical energy in plants.",
    ]
    for one in sentences:
        for other in sentences:
            assert overlap_reward(f"<answer>{one}</answer>", other) == float(one == other)


def test_order_and_white_space_do_not_matter() -> None:
    first, second = "the valve opens at three bar", "the alarm is silent at night"
    assert percent_of_text_a_in_text_b(f"{first}\n\n{second}", f"{second};  {first}") > 0.95


def test_a_megabyte_is_scored_in_linear_time() -> None:
    started = time.perf_counter()
    percent_of_text_a_in_text_b("ab " * 300_000, "ba " * 300_000)
    for text in ("1," * 500_000, "\\boxed{" * 100_000, "<answer>" * 100_000, "9" * 1_000_000 + "a"):
        match_answer(text, "5")
        match_answer(text, "five")
    assert time.perf_counter() - started < 60


def test_structured_calls_are_counted_once() -> None:
    calls = [function_call("1", "search", {"q": "a"}), function_call("2", "search", {"q": "b"})]
    structured = {"role": "assistant", "content": None, "tool_calls": calls}
    left_in_text = {**structured, "content": "<tool_call>a</tool_call><tool_call>b</tool_call>"}
    assert count_search_calls([structured, {"role": "tool", "content": "x"}]) == 2
    assert count_search_calls([left_in_text, structured]) == 4
    assert tool_call_efficiency([structured] * 4, max_calls=7) == 0.0


def test_parts_are_joined_and_images_left_out() -> None:
    parts = [
        {"type": "text", "text": "a "},
        {"type": "image_url", "image_url": {"url": "u"}},
        {"text": "b"},
        "c",
        7,
    ]
    assert extract_completion_text([{"role": "assistant", "content": parts}]) == "a bc"


@pytest.mark.parametrize(
    ("text", "gold"),
    [
        ("1,234 of them", "1234"),
        ("$1,234.50", "1234.5"),
        ("−3", "-3"),
        ("10 - 3 = 7", 7),
        (".5", "1/2"),
        ("\\dfrac{3}{4}", "0.75"),
        ("1e3", "1000"),
        ("It is 58% now", "58"),
        ("58 cm", "58"),
        ("<answer> 7 </answer> or was it 8?", "7"),
        ("The answer is Paris.", "Paris"),
        ("**PARIS**", "Paris"),
        ("Answer: New  York\nbecause I say so", "new york"),
        ("\\boxed{x^2+1}", "x^2+1"),
        ("\\boxed{a \\boxed{5}}", "5"),
    ],
)
def test_right_answers_in_their_usual_dress(text: str, gold: object) -> None:
    assert match_answer(text, gold) == 1.0


@pytest.mark.parametrize(
    ("text", "gold"),
    [
        ("58a", "58"),
        ("x58", "58"),
        ("1.58", "58"),
        ("58.5", "58"),
        ("-58", "58"),
        ("58/2", "58"),
        ("58,000", "58"),
        ("58, then 59", "58"),
        ("Paris or London", "Paris"),
        ("not Paris", "Paris"),
        ("", "Paris"),
        ("", ""),
        ("anything", ""),
        ("1/0", "0"),
        ("\\boxed{58} and \\boxed{", "59"),
    ],
)
def test_wrong_answers_are_not_paid(text: str, gold: object) -> None:
    assert match_answer(text, gold) == 0.0
