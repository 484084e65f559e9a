"""Is the answer of a text the right one: each kind of answer compared in its own way."""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet
from typing import Literal, get_args

from benchmax.rewards.answers.booleans import matches_boolean, truth_of
from benchmax.rewards.answers.choices import Options, chosen_letter, gold_letter, lettered, matches_choice
from benchmax.rewards.answers.expressions import equal_expressions, is_expression, is_wordless
from benchmax.rewards.answers.lists import find_bracketed, matches_items, split_items
from benchmax.rewards.answers.numbers import Quantity, find_quantities, number_of, parse_quantity
from benchmax.rewards.answers.plain import canonical, plain_words, undecorated
from benchmax.rewards.answers.reading import Slot, last_box, read_slot

AnswerKind = Literal["number", "expression", "choice", "list", "set", "boolean", "text"]
"""How an answer is compared."""

MAX_LIST_CHARS = 10_000
_CHOICE = re.compile(r"[A-J]|\([A-J]\)")
_MATH_SEGMENT = re.compile(r"\$\$?([^$]+)\$|\\\((.+?)\\\)|\\\[(.+?)\\\]", re.DOTALL)
_ASSIGNMENT = re.compile(r"^\s*\\?[A-Za-z](?:_\w|_\{\w+\}|\([a-z]\))?\s*(?:=|∈|\\in(?![A-Za-z]))\s*(?=[^=])")
_EQUALS = re.compile(r"(?<![<>!])=(?!>)")
_MATH_TAIL_CHARS = 4000


def match_answer(
    text: str,
    gold: object,
    *,
    kind: AnswerKind | None = None,
    options: Options | None = None,
    ignore_articles: bool = False,
) -> float:
    """Return 1.0 when the text's final answer is the gold answer, else 0.0.

    Which part of the text is the answer says `benchmax.rewards.answers.reading`; the kind
    of the answer follows from the gold answer unless it is named (`infer_kind`). `options`
    are the choices of a multiple choice question, by letter or in order. `ignore_articles`
    drops a leading "the", "a" or "an" of answers in words. Total and linear in the length
    of the text. ValueError: there is no such kind.
    """
    slot = read_slot(text)
    return float(slot is not None and _matches(slot, gold, kind, options, ignore_articles))


def is_answer(
    answer: str,
    gold: object,
    *,
    kind: AnswerKind | None = None,
    options: Options | None = None,
    ignore_articles: bool = False,
) -> bool:
    """Whether an answer that was already read out of its text is the gold answer.

    The whole of `answer` has to be it, as inside a box. Parameters as of `match_answer`.
    """
    return _matches(Slot(text=answer, place="box"), gold, kind, options, ignore_articles)


def infer_kind(gold: object, options: Options | None = None) -> AnswerKind:
    """Return how a gold answer is compared when nobody says.

    By type: booleans, sets, lists and tuples. Anything else is a choice when options are
    given. Text is one when it is one capital letter from A to J; a number, with or without
    a unit; yes, no, true or false; a list when it is in brackets with commas or is numbers with commas
    between; an expression when it is mathematics without words; else text.
    """
    if isinstance(gold, bool):
        return "boolean"
    if isinstance(gold, AbstractSet):
        return "set"
    if isinstance(gold, (list, tuple)):
        return "list"
    if options is not None:
        return "choice"
    if number_of(gold) is not None:
        return "number"
    text = _gold_text(gold)
    plain = undecorated(text).strip()
    if _CHOICE.fullmatch(plain):
        return "choice"
    if parse_quantity(text) is not None:
        return "number"
    if truth_of(text) is not None:
        return "boolean"
    bracket, items = split_items(text) if len(text) <= MAX_LIST_CHARS else ("", [])
    if len(items) > 1 and (bracket or all(number_of(item) for item in items)):
        return "set" if bracket == "{}" else "list"
    return "expression" if is_expression(text) else "text"


def _matches(
    slot: Slot, gold: object, kind: AnswerKind | None, options: Options | None, ignore_articles: bool
) -> bool:
    if kind is not None and kind not in get_args(AnswerKind):
        raise ValueError(f"no kind of answer called {kind!r}; there are {', '.join(get_args(AnswerKind))}")
    kind = kind or infer_kind(gold, options)
    if kind in ("list", "set"):
        return _matches_list(slot, gold, in_order=kind == "list")
    if kind == "number":
        return _matches_number(slot, gold)
    text = _gold_text(gold)
    if not plain_words(text):
        return False
    if kind == "choice":
        return _matches_choice(slot, text, lettered(options))
    if kind == "boolean":
        return matches_boolean(slot, text)
    if kind == "expression":
        return _matches_expression(slot, text)
    wanted = plain_words(text, ignore_articles=ignore_articles)
    return bool(wanted) and wanted in (
        plain_words(slot.line(), ignore_articles=ignore_articles),
        plain_words(slot.sentence(), ignore_articles=ignore_articles),
    )


def _gold_text(gold: object) -> str:
    """Return a gold answer as text; of a worked solution what it boxes or puts after `####`."""
    try:
        text = str(gold)
    except Exception:  # noqa: BLE001 - the environment's own value; whole numbers beyond 4,300 digits refuse too
        return ""
    box = last_box(text)
    if box is not None:
        return box
    _, mark, after = text.rpartition("####")
    return after.strip() if mark else text


def _matches_choice(slot: Slot, gold: str, options: dict[str, str]) -> bool:
    """Whether the slot names the right option, or says its number where it names none."""
    if matches_choice(slot, gold, options):
        return True
    right = options.get(gold_letter(gold, options) or "")
    return right is not None and chosen_letter(slot, options) is None and _matches_number(slot, right)


def _matches_number(slot: Slot, gold: object) -> bool:
    wanted = number_of(gold) or parse_quantity(_gold_text(gold))
    if wanted is None:
        return False
    said = _read_number(slot)
    if said is not None:
        return said.agrees_with(wanted) and not (wanted.unit and said.followed and not said.unit)
    whole = slot.sentence()
    return not wanted.unit and is_expression(whole) and equal_expressions(whole, _as_latex(wanted))


def _read_number(slot: Slot) -> Quantity | None:
    """Return the number that a slot states.

    The slot as a whole; or what follows its last equals sign; or, where it is mathematics,
    none: algebra decides. In words: a marked place or the first sentence after a lead-in
    must hold one value only; in prose the last one counts.
    """
    whole = slot.sentence() if slot.is_marked else slot.sentence().rstrip("!")
    stated = parse_quantity(whole) or parse_quantity(_EQUALS.split(canonical(whole))[-1])
    if stated is not None:
        return stated
    if is_expression(whole):
        return None
    found = find_quantities(whole)
    if not found and slot.place == "lead-in":
        return _last(find_quantities(slot.text))
    if slot.place == "prose":
        return _last(found)
    return _last(found) if len({(each.value, each.unit) for each in found}) == 1 else None


def _last(found: list[Quantity]) -> Quantity | None:
    return found[-1] if found else None


def _as_latex(quantity: Quantity) -> str:
    value = quantity.value
    return str(value) if value.denominator == 1 else f"\\frac{{{value.numerator}}}{{{value.denominator}}}"


def _matches_expression(slot: Slot, gold: str) -> bool:
    wanted = _plain_expression(gold)
    candidates = [slot.line(), slot.sentence()]
    if not slot.is_marked:
        segments = [
            next(filter(None, m.groups())) for m in _MATH_SEGMENT.finditer(slot.text[-_MATH_TAIL_CHARS:])
        ]
        candidates += segments[-1:]
    for said in dict.fromkeys(candidates):
        if _plain_expression(said) == wanted:
            return True
        if is_wordless(said) and equal_expressions(said, gold):
            return True
        bare_said, bare_gold = _ASSIGNMENT.sub("", said), _ASSIGNMENT.sub("", gold)
        if (bare_said != said) != (bare_gold != gold) and equal_expressions(bare_said, bare_gold):
            return True
    return False


def _plain_expression(text: str) -> str:
    """Return an expression as text; unlike words, symbols keep their case."""
    return " ".join(undecorated(text).split()).rstrip(" .,;")


def _matches_list(slot: Slot, gold: object, *, in_order: bool) -> bool:
    if isinstance(gold, (list, tuple, AbstractSet)):
        wanted = ("", [str(item) for item in gold])
    else:
        wanted = split_items(_gold_text(gold)[:MAX_LIST_CHARS])
    said = slot.line()
    if not slot.is_marked and not split_items(said[:MAX_LIST_CHARS])[0]:
        said = find_bracketed(slot.text[-MAX_LIST_CHARS:]) or slot.sentence()
    said = _ASSIGNMENT.sub("", said[:MAX_LIST_CHARS])
    return matches_items(
        split_items(said, len(wanted[1]) if in_order else None),
        wanted,
        in_order=in_order,
        is_same=_is_same_item,
    )


def _is_same_item(answer: str, gold: str) -> bool:
    slot = Slot(text=_ASSIGNMENT.sub("", answer), place="box")
    bare = _ASSIGNMENT.sub("", gold)
    kind = infer_kind(bare)
    return _matches(slot, bare, "text" if kind in ("list", "set") else kind, None, False)
