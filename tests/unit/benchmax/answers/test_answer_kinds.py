"""What is read as what: kinds, quantities, units, slots, items. Exact values."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import pytest

from benchmax.rewards import extract_answer, is_answer, match_answer, read_tagged_answer
from benchmax.rewards.answers import infer_kind
from benchmax.rewards.answers.booleans import truth_of
from benchmax.rewards.answers.choices import lettered
from benchmax.rewards.answers.lists import MAX_ITEMS, find_bracketed, split_items
from benchmax.rewards.answers.numbers import (
    MAX_NUMBER_CHARS,
    TAIL_CHARS,
    Quantity,
    find_quantities,
    number_of,
    parse_quantity,
)
from benchmax.rewards.answers.plain import canonical, plain_words, undecorated
from benchmax.rewards.answers.reading import Slot, last_block, last_box, read_slot, without_thinking
from benchmax.rewards.answers.units import find_unit


@pytest.mark.parametrize(
    ("gold", "kind"),
    [
        (True, "boolean"),
        (3, "number"),
        (0.5, "number"),
        (Decimal("2.50"), "number"),
        (Fraction(1, 3), "number"),
        (math.nan, "text"),
        (math.inf, "text"),
        (None, "text"),
        ({1, 2}, "set"),
        (frozenset(), "set"),
        ([1, 2], "list"),
        ((1, 2), "list"),
        ("58", "number"),
        ("1,234", "number"),
        ("5 km", "number"),
        ("50%", "number"),
        ("\\frac{1}{2}", "number"),
        ("#### 58", "number"),
        ("so \\boxed{58}", "number"),
        ("Yes", "boolean"),
        ("FALSE.", "boolean"),
        ("A", "choice"),
        ("J", "choice"),
        ("(C)", "choice"),
        ("K", "text"),
        ("a", "text"),
        ("[1, 2]", "list"),
        ("(0, 1]", "list"),
        ("{1, 2}", "set"),
        ("\\{1, 2\\}", "set"),
        ("1, 2, 3", "list"),
        ("Paris, France", "text"),
        ("[5]", "text"),
        ("x^2+1", "expression"),
        ("2\\sqrt{3}", "expression"),
        ("y = 2x", "expression"),
        ("Paris", "text"),
        ("it is 5 - 3", "text"),
        ("2024-05-12", "expression"),
        ("", "text"),
    ],
)
def test_the_kind_follows_from_the_gold_answer(gold: object, kind: str) -> None:
    assert infer_kind(gold) == kind


def test_options_make_any_text_a_choice_and_a_named_kind_wins() -> None:
    assert infer_kind("Paris", ["London", "Paris"]) == "choice"
    assert match_answer("Paris", "Paris", options=["London", "Paris"], kind="text") == 1.0
    assert match_answer("B", "Paris", options=["London", "Paris"], kind="text") == 0.0


def test_a_kind_that_does_not_exist_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"no kind of answer called 'integer'.*number, expression, choice"):
        match_answer("5", "5", kind="integer")  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["number", "choice", "boolean"])
def test_a_gold_answer_that_is_not_of_the_named_kind_is_matched_by_nothing(kind) -> None:
    assert match_answer("Paris", "Paris", kind=kind) == 0.0


@pytest.mark.parametrize(
    ("text", "value", "unit"),
    [
        ("5", 5, ""),
        (" -5. ", -5, ""),
        ("+ 5", 5, ""),
        ("1,234.50", Fraction("1234.5"), ""),
        ("1 234,5", Fraction("1234.5"), ""),
        ("12.345.678", 12345678, ""),
        ("1.234,5", Fraction("1234.5"), ""),
        ("1.5/2", Fraction(3, 4), ""),
        ("2 3/4", Fraction(11, 4), ""),
        ("-2 3/4", Fraction(-11, 4), ""),
        ("1e-2", Fraction(1, 100), ""),
        ("2.5 \\cdot 10^{-3}", Fraction(1, 400), ""),
        ("-\\frac{-1}{2}", Fraction(1, 2), ""),
        ("5 km/h", 5, "km/h"),
        ("5 kilometres", 5, "km"),
        ("3 square feet", 3, "ft^2"),
        ("3 cubic metres", 3, "m^3"),
        ("3 m^{2}", 3, "m^2"),
        ("50\\%", 50, "%"),
        ("90^\\circ", 90, "°"),
        ("90^{\\circ}", 90, "°"),
        ("21 °C", 21, "°C"),
        ("$5", 5, "USD"),
        ("\\$5", 5, "USD"),
        ("-$5", -5, "USD"),
        ("$5$", 5, ""),
        ("£5", 5, "GBP"),
        ("5 €", 5, "EUR"),
    ],
)
def test_a_quantity_is_read_with_its_unit(text: str, value: object, unit: str) -> None:
    assert parse_quantity(text) == Quantity(value=Fraction(value), unit=unit)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "five",
        "5 6",
        "5 apples",
        "5a",
        "x5",
        "1/0",
        "5!",
        "3 5/4",
        "3,14",
        "1,23",
        "1.2.3",
        "5-3",
        "10:30",
        "1_000",
        "5^2",
        "\\pm 5",
        "5km2x",
        "1 2/0",
        "5 / 2 / 2",
        "0,5",
        "1e1000",
        "--5",
        "5 square",
        "2\\frac{-1}{2}",
    ],
)
def test_what_may_mean_two_things_is_no_quantity(text: str) -> None:
    assert parse_quantity(text) is None


def test_a_number_has_at_most_a_thousand_characters() -> None:
    assert parse_quantity("9" * MAX_NUMBER_CHARS) == Quantity(value=Fraction(10**MAX_NUMBER_CHARS - 1))
    assert parse_quantity("9" * (MAX_NUMBER_CHARS + 1)) is None
    assert find_quantities("so " + "9" * (MAX_NUMBER_CHARS + 1)) == []


def test_numbers_are_looked_for_in_the_tail_of_a_text() -> None:
    assert find_quantities("5" + "." * (TAIL_CHARS - 1)) == [Quantity(value=Fraction(5))]
    assert find_quantities("5" + "." * TAIL_CHARS) == []


def test_quantities_come_in_order_with_what_follows_them() -> None:
    assert find_quantities("3 pumps, 4 km and 5") == [
        Quantity(value=Fraction(3), followed=True),
        Quantity(value=Fraction(4), unit="km"),
        Quantity(value=Fraction(5)),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "not 5",
        "it isn't 5",
        "never was it 5",
        "5 is not it",
        "5 is wrong",
        "5 was incorrect",
        "the 5 isn't",
        "rather than 5",
    ],
)
def test_a_number_that_its_clause_denies_is_not_found(text: str) -> None:
    assert find_quantities(text) == []


@pytest.mark.parametrize("text", ["I do not know, 5", "not so. 5", "5, which is not 6", "5 is right"])
def test_a_denial_ends_with_its_clause(text: str) -> None:
    assert find_quantities(text)[0] == Quantity(value=Fraction(5), followed="is" in text.split(",")[0])


def test_numbers_of_python_are_quantities_and_booleans_are_not() -> None:
    assert (
        number_of(3)
        == number_of(3.0)
        == number_of(Decimal(3))
        == number_of("3.00")
        == Quantity(value=Fraction(3))
    )
    assert (
        number_of(True)
        is number_of(math.nan)
        is number_of(-math.inf)
        is number_of(None)
        is number_of([3])
        is None
    )


def test_a_missing_unit_agrees_with_any_and_two_units_must_be_one() -> None:
    km, m, none = (Quantity(value=Fraction(5), unit=unit) for unit in ("km", "m", ""))
    assert km.agrees_with(none) and none.agrees_with(km) and km.agrees_with(km) and none.agrees_with(none)
    assert not km.agrees_with(m)
    assert not km.agrees_with(Quantity(value=Fraction(6), unit="km"))


@pytest.mark.parametrize(
    ("spelling", "unit"),
    [
        ("km", "km"),
        ("KM", None),
        ("Kilometers", "km"),
        ("mW", "mW"),
        ("MW", "MW"),
        ("Feet", "ft"),
        ("Day", None),
        ("day", "day"),
        ("apple", None),
        ("€", "EUR"),
        ("%", "%"),
        ("kcal", "kcal"),
        ("m/s", "m/s"),
        ("", None),
    ],
)
def test_symbols_keep_their_case_and_words_do_not(spelling: str, unit: str | None) -> None:
    assert find_unit(spelling) == unit


@pytest.mark.parametrize(
    ("text", "slot"),
    [
        ("a 5", Slot(text="a 5", place="prose")),
        ("<answer> 5 </answer>", Slot(text="5", place="block")),
        ("\\boxed{5}", Slot(text="5", place="box")),
        ("<answer>a \\boxed{5}</answer>", Slot(text="5", place="box")),
        ("The answer is: **5**.", Slot(text="5.", place="lead-in")),
        ("answer =5", Slot(text="5", place="lead-in")),
        ("The answers are 5", Slot(text="The answers are 5", place="prose")),
        ("  #### 5", Slot(text="5", place="lead-in")),
        ("a #### 5", Slot(text="a #### 5", place="prose")),
        ("the answer should be 5", Slot(text="5", place="lead-in")),
        ("4, on second thought 5", Slot(text="5", place="lead-in")),
        ("4. Wait, no, 5", Slot(text="5", place="lead-in")),
        ("4. I was wrong: 5", Slot(text="5", place="lead-in")),
        ("4. That's incorrect. 5", Slot(text=". 5", place="lead-in")),
        ("4. I take it back, 5", Slot(text="5", place="lead-in")),
        ("\\boxed{5", None),
        ("<answer>5", None),
        ("<answer>\\boxed{5</answer>", None),
        ("</answer>5", Slot(text="</answer>5", place="prose")),
    ],
)
def test_the_slot_of_a_text(text: str, slot: Slot | None) -> None:
    assert read_slot(text) == slot


def test_lines_and_sentences_are_cut_in_lead_ins_only() -> None:
    text = "\n a. b! \n c"
    assert (Slot(text=text, place="lead-in").line(), Slot(text=text, place="lead-in").sentence()) == (
        "a. b!",
        "a",
    )
    assert Slot(text=text, place="prose").line() == Slot(text=text, place="box").sentence() == "a. b! \n c"
    assert [Slot(text="", place=place).is_marked for place in ("block", "box", "lead-in", "prose")] == [
        True,
        True,
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("The answer is 5 km.\nBye", "5 km."),
        ("\\boxed{x}", "x"),
        (" a ", "a"),
        ("", None),
        ("<answer> </answer>", None),
        ("<think>5", None),
        ("<think>4</think> 5", "5"),
        ("\\boxed{", None),
    ],
)
def test_what_was_read_can_be_shown(text: str, answer: str | None) -> None:
    assert extract_answer(text) == answer


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a<think>b</think>c", "ac"),
        ("a</think>b", "b"),
        ("a<think>b", "a"),
        ("<think>a<think>b</think>c</think>d", "d"),
        ("a<thinking>b</thinking>c<THINK>d</THINK>e", "ace"),
        ("<think/>a", "<think/>a"),
        ("a", "a"),
    ],
)
def test_thinking_is_taken_out(text: str, shown: str) -> None:
    assert without_thinking(text) == shown


def test_the_last_complete_block_and_box_count() -> None:
    assert last_block("<answer>1</answer><Answer> 2 </aNSWER><answer>3") == "2"
    assert last_block("<answer>1<answer>2</answer>") == "2"
    assert last_block("</answer><answer>") is None
    assert last_box("\\boxed{1}\\boxed{{2}}\\boxed{3") == "{2}"
    assert last_box("}\\boxed{a{b}c}") == "a{b}c"
    assert last_box("\\boxed{\\boxed{1}2}") == "1"


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("a <Answer> 5 </ANSWER> b", "5"),
        ("<answer>5", None),
        ("5</answer>", None),
        ("</answer>5<answer>", None),
        ("<answer> </answer>", None),
        ("<answer>5</answer><answer>5</answer>", None),
        ("<answer>5</answer></answer>", None),
        ("<answer><answer>5</answer>", None),
        ("", None),
    ],
)
def test_exactly_one_pair_of_tags_is_read(text: str, answer: str | None) -> None:
    assert read_tagged_answer(text) == answer


@pytest.mark.parametrize(
    ("text", "count", "bracket", "items"),
    [
        ("[1, 2]", None, "[]", ["1", "2"]),
        ("(1,2)", None, "()", ["1", "2"]),
        ("\\{1; 2\\}", None, "{}", ["1", "2"]),
        ("1, 2 and 3", None, "", ["1", "2", "3"]),
        ("1, 2, and 3.", None, "", ["1", "2", "3"]),
        ("[0, 1)", None, "[)", ["0", "1"]),
        ("(1, 2), (3, 4)", None, "", ["(1, 2)", "(3, 4)"]),
        ("1,234, 5", None, "", ["1,234", "5"]),
        ("1,234", 2, "", ["1", "234"]),
        ("1,234", 3, "", ["1,234"]),
        ("[]", None, "[]", []),
        ("", None, "", []),
        ("a", None, "", ["a"]),
    ],
)
def test_items_are_split(text: str, count: int | None, bracket: str, items: list[str]) -> None:
    assert split_items(text, count) == (bracket, items)


def test_the_last_bracket_with_a_comma_is_the_list_in_prose() -> None:
    assert find_bracketed("(1, 2) or [3, 4] (see above)") == "[3, 4]"
    assert find_bracketed("(see above)") is None


def test_lists_are_compared_up_to_a_hundred_items() -> None:
    items = list(range(MAX_ITEMS))
    assert match_answer(str(items), items) == 1.0
    assert match_answer(str([*items, 100]), [*items, 100]) == 0.0


def test_items_may_be_of_any_kind_but_lists() -> None:
    assert match_answer("[0.5, x+1, Yes, Red]", ["1/2", "x+1", "true", "red"]) == 1.0
    assert match_answer("[[1, 2], [3, 4]]", "[[1, 2], [3, 4]]") == 1.0
    assert match_answer("[[2, 1], [3, 4]]", "[[1, 2], [3, 4]]") == 0.0
    assert match_answer("[]", []) == 1.0
    assert match_answer("nothing", []) == 0.0


def test_canonical_text_spells_out_powers_fractions_and_digits() -> None:
    assert canonical("5² ⁻³") == "5^2 ^-3"
    assert canonical("1½") == "1 1/2 "
    assert canonical("٣ ５") == "3 5"
    assert canonical("\u2212 ’ “a”\u200b") == '- \' "a"'
    assert undecorated("**a_b** _c_ `d` $e$ \\text{f} \\left(g\\right)") == "a_b c d e f (g)"
    assert plain_words("  The  Café. ") == "the café"
    assert plain_words("The An apple", ignore_articles=True) == "an apple"


def test_a_truth_is_one_word() -> None:
    assert [truth_of(text) for text in ("Yes.", "no", "TRUE", "false!", "yes no", "", "y")] == [
        True, False, True, False, None, None, None,
    ]  # fmt: skip


def test_options_are_lettered() -> None:
    assert lettered(["x", "y"]) == {"A": "x", "B": "y"}
    assert lettered({"a ": "x", "C": 5}) == {"A": "x", "C": "5"}  # type: ignore[dict-item]
    assert lettered(None) == {}


def test_an_answer_that_was_read_before_has_to_be_the_whole_answer() -> None:
    assert is_answer("5 km", "5 km") is True
    assert is_answer("5 or 6", "6") is False
    assert is_answer("the answer is 5 of 6", "6") is False
    assert is_answer("Seine", "the Seine", ignore_articles=True) is True
    assert is_answer("Paris", "B", options=["London", "Paris"]) is True
    assert is_answer("2, 1", [1, 2], kind="set") is True


def test_a_gold_answer_that_cannot_be_written_is_matched_by_nothing() -> None:
    class Odd:
        def __str__(self) -> str:
            raise RuntimeError("no")

    assert match_answer("5", Odd()) == 0.0
    assert match_answer("5", 10**5000, kind="text") == 0.0
    assert match_answer("9" * 5000, 10**5000) == 0.0


def test_a_choice_is_looked_for_in_texts_of_ten_thousand_characters_and_no_longer() -> None:
    long = "x" * 9_997
    assert match_answer(f"<answer>B) {long}</answer>", "B", options=["no", long]) == 1.0
    assert match_answer(f"<answer>B) {long}x</answer>", "B", options=["no", long + "x"]) == 0.0


def test_options_make_a_choice_of_any_gold_answer_that_is_no_list() -> None:
    assert infer_kind("5", ["3", "5"]) == infer_kind(5, ["3", "5"]) == "choice"
    assert infer_kind([5], ["3", "5"]) == "list"
    assert match_answer("B", 5, options=["3", "5"]) == 1.0
    assert match_answer("A", 5, options=["3", "5"]) == 0.0
