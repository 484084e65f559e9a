from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest
from castform_env_arith.questions import (
    DIGIT_SUMS,
    HELD_OUT_SHARE,
    MIXED_LEVELS,
    SMALL_DIFFERENCES,
    SMALL_SUMS,
    TWO_DIGIT_SUMS,
    Kind,
    Question,
    draw_questions,
    list_questions,
    solved_examples,
    split_of,
)

GRADES: dict[str, tuple[Kind, ...]] = {
    "add": (DIGIT_SUMS,),
    "add24": (SMALL_SUMS,),
    "add2": (TWO_DIGIT_SUMS,),
    "subtract": (SMALL_DIFFERENCES,),
    **{f"mixed-{level}": kinds for level, kinds in MIXED_LEVELS.items()},
}
every_grade = pytest.mark.parametrize("kinds", GRADES.values(), ids=GRADES.keys())
EVERYTHING = 100_000


def pairs(questions: list[Question]) -> set[frozenset[int]]:
    return {frozenset((q.first, q.second)) for q in questions}


@every_grade
def test_no_held_out_pair_occurs_in_training_in_either_order(kinds: tuple[Kind, ...]) -> None:
    train = draw_questions(kinds, "train", count=EVERYTHING, seed=0)
    held_out = draw_questions(kinds, "eval", count=EVERYTHING, seed=1)
    assert train and held_out
    assert not pairs(train) & pairs(held_out)


def test_a_pair_is_held_out_in_every_grade_or_in_none() -> None:
    train = {
        p
        for kinds in GRADES.values()
        for p in pairs(draw_questions(kinds, "train", count=EVERYTHING, seed=0))
    }
    held_out = {
        p for kinds in GRADES.values() for p in pairs(draw_questions(kinds, "eval", count=EVERYTHING, seed=0))
    }
    assert not train & held_out


@every_grade
def test_every_grade_but_the_easiest_has_a_hundred_held_out_questions(kinds: tuple[Kind, ...]) -> None:
    questions = draw_questions(kinds, "eval", count=EVERYTHING, seed=0)
    enough = 26 if kinds == (DIGIT_SUMS,) else 100  # there are 81 sums of one-digit numbers
    assert len({q.text for q in questions}) == len(questions) >= enough


@every_grade
def test_solved_examples_are_never_asked_and_never_give_the_answer(kinds: tuple[Kind, ...]) -> None:
    asked = [q for split in ("train", "eval") for q in draw_questions(kinds, split, count=EVERYTHING, seed=0)]
    texts = {q.text for q in asked}
    for question in asked:
        solved = solved_examples(question, 4)
        assert len(solved) == 4
        assert all(s.answer != question.answer for s in solved)
        if len(kinds) == 1:
            assert not texts & {s.text for s in solved}


@every_grade
def test_the_seed_decides_the_draw_and_global_randomness_does_not(kinds: tuple[Kind, ...]) -> None:
    random.seed(1)
    before = random.getstate()
    first = draw_questions(kinds, "train", count=50, seed=7)
    assert random.getstate() == before
    random.seed(2)
    assert draw_questions(kinds, "train", count=50, seed=7) == first
    assert draw_questions(kinds, "train", count=50, seed=8) != first
    assert draw_questions(kinds, "train", count=20, seed=7) == first[:20]


def test_the_kinds_of_a_mixed_level_take_turns() -> None:
    drawn = draw_questions(MIXED_LEVELS[4], "train", count=300, seed=0)
    counts = {symbol: sum(q.kind.symbol == symbol for q in drawn) for symbol in "+-*"}
    assert counts == {"+": 100, "-": 100, "*": 100}


def test_an_exhausted_kind_leaves_its_turns_to_the_others() -> None:
    tiny = Kind(symbol="+", low=1, high=3)
    available = len(list_questions(tiny, "train"))
    drawn = draw_questions([tiny, TWO_DIGIT_SUMS], "train", count=100, seed=0)
    assert len(drawn) == 100
    assert sum(q.kind == tiny for q in drawn) == available


@every_grade
def test_repeating_an_operand_is_never_a_right_sum_or_product(kinds: tuple[Kind, ...]) -> None:
    asked = [q for split in ("train", "eval") for q in draw_questions(kinds, split, count=EVERYTHING, seed=0)]
    assert not [q for q in asked if q.kind.symbol != "-" and q.answer in (q.first, q.second)]


def test_differences_never_go_below_zero() -> None:
    assert min(q.answer for q in list_questions(SMALL_DIFFERENCES, "train")) >= 0


def test_the_held_out_share_is_what_it_says() -> None:
    splits = [split_of(a, b) for a in range(1, 200) for b in range(a, 200)]
    assert splits.count("eval") / len(splits) == pytest.approx(HELD_OUT_SHARE, abs=0.01)


def test_another_process_with_another_hash_seed_draws_the_same() -> None:
    code = (
        "from castform_env_arith.questions import *\n"
        "print([q.id for q in draw_questions(MIXED_LEVELS[4], 'train', count=30, seed=3)])"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert outputs == {f"{[q.id for q in draw_questions(MIXED_LEVELS[4], 'train', count=30, seed=3)]}\n"}


def test_the_readme_counts_the_questions_of_every_grade() -> None:
    readme = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
    found = re.findall(r"^\| .*`arith/(\w+)`(?: level (\d))? \|.*\| (\d+) \| (\d+) \|$", readme, re.MULTILINE)
    listed = {name + (f"-{level}" if level else ""): (int(a), int(b)) for name, level, a, b in found}
    counted = {
        name: tuple(
            len(draw_questions(kinds, split, count=EVERYTHING, seed=0)) for split in ("train", "eval")
        )
        for name, kinds in GRADES.items()
    }
    assert listed == counted
