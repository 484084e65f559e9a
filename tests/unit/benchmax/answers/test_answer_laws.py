"""Laws of matching: a wrong number is never paid, dress never matters, nothing raises, sides can be swapped."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from benchmax.rewards import extract_answer, is_answer, match_answer
from benchmax.rewards.answers import infer_kind

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
PIECES = [
    "1",
    "2",
    ".",
    ",",
    "/",
    " ",
    "-",
    "%",
    "e",
    "\\frac",
    "\\boxed{",
    "{",
    "}",
    "[",
    "(",
    ")",
    "^",
    "=",
    "!",
    "A",
    "no wait",
]
LIKELY = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)
GOLDS: st.SearchStrategy[Any] = st.one_of(
    TEXT,
    LIKELY,
    st.integers(),
    st.floats(),
    st.booleans(),
    st.none(),
    st.fractions(),
    st.lists(TEXT | st.integers(), max_size=4),
    st.frozensets(st.integers(), max_size=4),
)
DECIMALS = st.decimals(-(10**12), 10**12, allow_nan=False, allow_infinity=False, places=4)
DRESSES = [
    "{}",
    "**{}**",
    "__{}__",
    "`{}`",
    "${}$",
    "\\({}\\)",
    "\\boxed{{{}}}",
    "\\boxed{{\\text{{{}}}}}",
    "<answer>{}</answer>",
    "<answer>\n\\boxed{{{}}}\n</answer>",
    "<think>7 or 8 or 9</think>\n{}",
    "The answer is {}.",
    "**Answer:** {}",
    "Answer:\n{}\n",
    "#### {}",
    "I counted 17 first, so the total is {}.",
    "x = {}",
    "The answer is 17. No wait, it is {}.",
    "```\n{}\n```",
]
WRITINGS = [
    lambda number: f"{number:f}",
    lambda number: f"{number:,f}",
    lambda number: f"{number:f}000",
    lambda number: f"{number:,f}".replace(",", "'"),
    lambda number: f"{number:,f}".replace(",", "\u202f"),
    lambda number: f"{number:f}".replace("-", "\u2212"),
    lambda number: f"{number:f}".translate({ord(str(digit)): 0xFF10 + digit for digit in range(10)}),
    lambda number: f"{number:f} km",
    lambda number: f"{number:f}e0",
    lambda number: f"{number:f} \\times 10^{{0}}",
    lambda number: f"{number.scaleb(3):f}e-3",
]


@settings(deadline=None)
@given(DECIMALS, st.sampled_from(DRESSES), st.sampled_from(WRITINGS), st.sampled_from(WRITINGS))
def test_a_number_matches_itself_in_every_writing_and_dress(number, dress, writing, gold_writing) -> None:
    assert match_answer(dress.format(writing(number)), gold_writing(number)) == 1.0


@settings(deadline=None)
@given(DECIMALS, DECIMALS, st.sampled_from(DRESSES), st.sampled_from(WRITINGS))
def test_a_wrong_number_never_matches(number, other, dress, writing) -> None:
    assert match_answer(dress.format(writing(number)), f"{other:f}") == float(number == other)


@settings(deadline=None)
@given(DECIMALS, st.sampled_from(["0.0001", "-0.0001", "1", "1000", "10000000"]), st.sampled_from(DRESSES))
def test_a_number_next_to_the_right_one_never_matches(number, step, dress) -> None:
    assert match_answer(dress.format(f"{number + Decimal(step):f}"), f"{number:f}") == 0.0


@settings(deadline=None)
@given(st.fractions(max_denominator=10**6), st.fractions(max_denominator=10**6), st.sampled_from(DRESSES))
def test_fractions_match_by_value_alone(one: Fraction, other: Fraction, dress: str) -> None:
    latex = f"\\frac{{{other.numerator * 3}}}{{{other.denominator * 3}}}"
    assert match_answer(dress.format(latex), str(one)) == float(one == other)
    assert match_answer(dress.format(str(one)), latex) == float(one == other)


@settings(deadline=None)
@given(TEXT | LIKELY, GOLDS)
@example("5", 10**5000)
@example("\\boxed{" * 5, "\\boxed{")
@example("1e999", "1e999")
def test_any_text_and_gold_get_a_verdict(text: str, gold: Any) -> None:
    assert match_answer(text, gold) in (0.0, 1.0)
    assert is_answer(text, gold) in (True, False)
    assert extract_answer(text) is None or extract_answer(text).strip()


@settings(deadline=None)
@given(DECIMALS, DECIMALS, st.sampled_from(["", " km", " m", "%"]), st.sampled_from(["", " km", " m", "%"]))
def test_quantities_can_change_sides(one, other, unit, other_unit) -> None:
    left, right = f"{one:f}{unit}", f"{other:f}{other_unit}"
    assert is_answer(left, right) == is_answer(right, left)
    assert is_answer(left, right) == (one == other and (unit == other_unit or not unit or not other_unit))


@settings(deadline=None)
@given(st.text("abcXYZ éß-'.,", min_size=1), st.text("abcXYZ éß-'.,", min_size=1))
def test_words_can_change_sides(one: str, other: str) -> None:
    assert is_answer(one, other, kind="text") == is_answer(other, one, kind="text")


@settings(deadline=None)
@given(st.lists(st.integers(-99, 99), min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_order_counts_in_lists_and_not_in_sets(items, random) -> None:
    other = items[:]
    random.shuffle(other)
    said = "[" + ", ".join(map(str, other)) + "]"
    assert match_answer(said, items) == float(other == items)
    assert match_answer(said, items, kind="set") == 1.0
    assert match_answer(said, set(items)) == 1.0
    assert match_answer(said, [*items, 100], kind="set") == 0.0


@settings(deadline=None)
@given(GOLDS)
def test_the_kind_of_a_gold_answer_is_always_known(gold: Any) -> None:
    assert infer_kind(gold) in ("number", "expression", "choice", "list", "set", "boolean", "text")


@settings(deadline=None, max_examples=30)
@given(st.lists(st.text("abcdefghij", min_size=2), min_size=2, max_size=10, unique=True), st.data())
def test_only_the_right_letter_of_a_choice_is_paid(options, data) -> None:
    letters = "ABCDEFGHIJ"[: len(options)]
    right, said = data.draw(st.sampled_from(letters)), data.draw(st.sampled_from(letters))
    for form in ("{}", "({})", "{}.", "The answer is ({}).", "\\boxed{{{}}}", "option {}"):
        assert match_answer(form.format(said), right, options=options) == float(said == right)
        assert match_answer(form.format(said), right) == float(said == right)
