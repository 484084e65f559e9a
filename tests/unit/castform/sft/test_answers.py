"""Exact match of answers to held-out rows: what is compared, and what is said about it."""

from __future__ import annotations

import json

import pytest

from castform.sft.answers import (
    Answer,
    HeldOutAnswers,
    add_answers,
    compare_answers,
    describe_answers,
    read_comparison,
)
from castform.sft.held_out import HeldOutLoss, RowLoss, compare_losses
from castform.verdict import Comparison


def answers(outcomes: str, *, expected: str = "yes") -> HeldOutAnswers:
    """One answer a letter: r right, w wrong, c cut."""
    found = [
        Answer(
            row=row,
            expected=expected,
            text=expected if letter == "r" else "no",
            correct=letter == "r",
            cut=letter == "c",
            tokens=3,
        )
        for row, letter in enumerate(outcomes)
    ]
    return HeldOutAnswers(answers=found, rows=50, seconds=1.5)


def losses(*values: float) -> HeldOutLoss:
    return HeldOutLoss(rows=[RowLoss(nll=value, weight=1.0) for value in values], seconds=0.1)


def test_exact_match_is_the_share_of_answers_that_are_right():
    found = answers("rwcr")
    assert (found.correct, found.exact_match) == (2, 0.5)
    assert found.as_dict(with_answers=False) == {
        "exact_match": 0.5,
        "correct": 2,
        "answer_count": 4,
        "cut": 1,
        "rows": 50,
        "seconds": 1.5,
    }
    again = HeldOutAnswers.from_dict(json.loads(json.dumps(found.as_dict())))
    assert again == HeldOutAnswers(answers=tuple(found.answers), rows=50, seconds=1.5)


def test_many_new_right_answers_are_better_and_few_show_no_difference():
    better = compare_answers(answers("w" * 20), answers("r" * 12 + "w" * 8))
    assert (better.word, better.before, better.after, better.difference) == ("better", 0.0, 0.6, 0.6)
    assert 0.3 < better.low < 0.6 < better.high < 0.9 and better.examples == 20
    # five of one sign have p = 2 / 32, six have 2 / 64
    assert compare_answers(answers("w" * 20), answers("r" * 5 + "w" * 15)).word == "no difference shown"
    assert compare_answers(answers("w" * 20), answers("r" * 6 + "w" * 14)).word == "better"
    assert compare_answers(answers("r" * 6 + "w" * 14), answers("w" * 20)).word == "worse"


def test_pairing_by_row_is_what_counts_not_the_two_shares():
    swapped = compare_answers(answers("rrrrrrwwwwww"), answers("wwwwwwrrrrrr"))
    assert (swapped.word, swapped.difference) == ("no difference shown", 0.0)
    assert swapped.low < -0.3 and swapped.high > 0.3
    same = compare_answers(answers("rwr"), answers("rwr"))
    assert (same.low, same.high, same.p) == (0.0, 0.0, 1.0)


@pytest.mark.parametrize("after", [answers("rwr"), answers("rr", expected="maybe")])
def test_answers_to_other_rows_are_not_compared(after):
    with pytest.raises(ValueError, match="different rows"):
        compare_answers(answers("rr"), after)


def test_the_loss_decides_the_word_and_a_contradiction_is_said():
    verdict = compare_losses(losses(*[2.0] * 9, 2.1), losses(*[1.0] * 9, 1.2))
    found = compare_answers(answers("r" * 10), answers("w" * 10))
    both = add_answers(verdict, found)
    assert (verdict.word, found.word, both.word) == ("better", "worse", "better")
    assert [each.name for each in both.components] == ["exact match"]
    assert both.describe() == verdict.describe()
    text = describe_answers(found, loss=both.word)
    assert text == (
        "worse: exact match 1.000 -> 0.000 (10 -> 0 of 10 answers), difference -1.000 "
        "(95 % interval -1.000 to -1.000); the loss says better: read the answers before you choose"
    )
    assert "the loss says" not in describe_answers(found, loss="worse")
    assert "the loss says" not in describe_answers(found, loss="no difference shown")


def test_exact_match_is_read_back_from_a_stored_verdict():
    found = compare_answers(answers("w" * 9), answers("r" * 9))
    stored = add_answers(compare_losses(losses(2.0, 2.1), losses(1.0, 1.2)), found).as_dict()
    again = read_comparison(json.loads(json.dumps(stored)))
    assert isinstance(again, Comparison) and again == found
    assert read_comparison(compare_losses(losses(2.0), losses(1.0)).as_dict()) is None
