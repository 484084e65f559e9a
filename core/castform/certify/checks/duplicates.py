"""Rows that are there twice: within a split, between training and evaluation, and in the answers.

Questions of one template differ in little and are no duplicates. So near duplicates are
compared by what the dataset's questions do not share, must agree in every number, and must
have the same right answer.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmax.envs import BaseEnv, Example
from castform.certify.checks.texts import gold_key, normalise, numbers_in, question_of, telling_grams
from castform.certify.context import CheckContext
from castform.gold import read_gold
from castform.intervals import wilson_interval
from castform.rollouts import Split
from castform.validation import Finding, Level

CHECK = "duplicates"
MOST_EXAMPLES = 1000
"""Rows of a split that are looked at, where loading them is quick."""
LOADING_SECONDS = 0.02
"""When a loading took so long, with more rows each time, those that are there must do."""
NEAR = 0.85
"""Jaccard similarity of the telling 5-grams from which on two questions are near duplicates."""
LEAST_GRAMS = 20
"""Questions with fewer telling 5-grams are too short to be near anything."""
LEAST_EXAMPLES = 10
"""Examples from which on a majority answer means something."""
LEAK_FAULT = 0.05
"""Share of the evaluation rows that may also be training rows before its figures mean nothing."""
MANY_REPEATS = 0.25
"""Share of repeated rows from which on a dataset is much smaller than it looks."""
LEAST_SHARED = 4
"""A 5-gram may be in so many questions, or in 5 % of them, and still tell them from the others."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One example, as far as it can be compared."""

    id: str
    question: str
    """As it was put, without case and spacing."""
    rest: str
    """What else is in the payload."""
    gold: str | None
    """The right answer, without case and spacing."""


async def check_duplicates(context: CheckContext) -> list[Finding]:
    """Look for repeated rows, leaked rows, contradicting and constant answers."""
    splits: tuple[Split, ...] = ("train", "eval")
    rows = {split: [_make_row(context, e) for e in await _load_more(context, split)] for split in splits}
    everything = [row for split in splits for row in rows[split]]
    if not everything:
        return [_finding("unchecked", "no_examples", "there are no examples to compare")]
    one_turn = isinstance(context.environment, BaseEnv) and context.environment.max_turns == 1
    findings: list[Finding] = []
    if not one_turn and _has_hidden_tasks(everything):
        findings.append(
            _finding(
                "unchecked",
                "same_prompts",
                "most prompts are alike and the task lies behind them, so rows cannot be told apart by what is "
                "asked: duplicates and leaks were not looked for",
            )
        )
    else:
        for split in splits:
            findings += _judge_repeats(split, rows[split], one_turn)
            findings += _judge_near(split, rows[split])
        findings += _judge_leaks(rows["train"], rows["eval"], one_turn)
    if one_turn:
        findings += _judge_conflicts(everything)
    return [*findings, *_judge_constant(rows[context.split])]


def _identity(row: Row, one_turn: bool) -> str:
    """Return what makes a row itself. With more turns, what is not in the prompt may come out in them."""
    return row.question if one_turn else f"{row.question}\x1f{row.rest}"


def _has_hidden_tasks(rows: Sequence[Row]) -> bool:
    """Say whether most rows share their prompt with a row that is another task."""
    behind: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        behind[row.question].add(row.rest)
    return sum(len(behind[row.question]) > 1 for row in rows) > len(rows) / 2


def _judge_repeats(split: str, rows: Sequence[Row], one_turn: bool) -> list[Finding]:
    groups = _group(rows, lambda row: _identity(row, one_turn))
    repeats = len(rows) - len(groups)
    if not repeats:
        return []
    first = next(group for group in groups.values() if len(group) > 1)
    return [
        _finding(
            "fault" if repeats >= MANY_REPEATS * len(rows) else "warning",
            "duplicate_rows",
            f"{repeats} of {len(rows)} {split} examples repeat an earlier one ({first[1].id} is {first[0].id} again)",
            first[1].id,
        )
    ]


def _judge_leaks(train: Sequence[Row], held_out: Sequence[Row], one_turn: bool) -> list[Finding]:
    known = {_identity(row, one_turn): row for row in train}
    leaked = [row for row in held_out if _identity(row, one_turn) in known]
    of = f"of {len(held_out)} eval examples"
    among = f"the {len(train)} train examples that were looked at"
    if leaked:
        twin = known[_identity(leaked[0], one_turn)]
        return [
            _finding(
                "fault" if len(leaked) > LEAK_FAULT * len(held_out) else "warning",
                "eval_leak",
                f"{len(leaked)} {of} are among {among} ({leaked[0].id} is {twin.id}), so an evaluation measures "
                "memory",
                leaked[0].id,
            )
        ]
    pairs = [(a, b) for a, b in find_near([*train, *held_out]) if a < len(train) <= b]
    if not pairs:
        return []
    near = sorted({b for _, b in pairs})
    row = held_out[near[0] - len(train)]
    twin = train[next(a for a, b in pairs if b == near[0])]
    return [
        _finding(
            "warning",
            "near_leak",
            f"{len(near)} {of} are nearly the same as one of {among} ({row.id} and {twin.id})",
            row.id,
        )
    ]


def _judge_near(split: str, rows: Sequence[Row]) -> list[Finding]:
    pairs = find_near(rows)
    if not pairs:
        return []
    first, second = pairs[0]
    return [
        _finding(
            "warning",
            "near_duplicates",
            f"{len({b for _, b in pairs})} of {len(rows)} {split} examples are nearly the same as an earlier one "
            f"({rows[second].id} and {rows[first].id})",
            rows[second].id,
        )
    ]


def find_near(rows: Sequence[Row]) -> list[tuple[int, int]]:
    """Return the places of rows that ask nearly the same and have the same right answer, in order.

    Rows that ask exactly the same are not among them.
    """
    grams = telling_grams([row.question for row in rows], most=max(LEAST_SHARED, len(rows) // 20))
    holders: dict[str, list[int]] = defaultdict(list)
    pairs: list[tuple[int, int]] = []
    for place, row in enumerate(rows):
        shared = Counter(other for gram in grams[place] for other in holders[gram])
        for other, count in shared.items():
            union = len(grams[place]) + len(grams[other]) - count
            if count >= max(LEAST_GRAMS, NEAR * union) and _is_same_task(rows[other], row):
                pairs.append((other, place))
        for gram in grams[place]:
            holders[gram].append(place)
    return sorted(pairs, key=lambda pair: (pair[1], pair[0]))


def _is_same_task(first: Row, second: Row) -> bool:
    return (
        first.gold is not None
        and first.gold == second.gold
        and first.question != second.question
        and numbers_in(first.question) == numbers_in(second.question)
    )


def _judge_conflicts(rows: Sequence[Row]) -> list[Finding]:
    for group in _group(rows, lambda row: row.question).values():
        answers = {row.gold: row for row in group if row.gold is not None}
        if len(answers) > 1:
            first, second = list(answers.values())[:2]
            return [
                _finding(
                    "warning",
                    "conflicting_golds",
                    f"examples {first.id} and {second.id} ask the same and have different right answers",
                    second.id,
                )
            ]
    return []


def _judge_constant(rows: Sequence[Row]) -> list[Finding]:
    """Say what one answer for everything would get right.

    Of two possible answers one is always right half of the time; that is only noted.
    """
    golds = [row.gold for row in rows if row.gold is not None]
    if len(golds) < LEAST_EXAMPLES:
        return []
    ((answer, count),) = Counter(golds).most_common(1)
    if 2 * count < len(golds):
        return []
    low, high = wilson_interval(count, len(golds))
    fair = len(set(golds)) == 2 and low <= 0.5
    return [
        _finding(
            "note" if fair else "warning",
            "constant_answer",
            f"a constant answer ({answer[:40]!r}) is right on {count} of {len(golds)} examples "
            f"({low:.0%} to {high:.0%} of all)",
        )
    ]


def _group(rows: Sequence[Row], key: Callable[[Row], str]) -> dict[str, list[Row]]:
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    return groups


async def _load_more(context: CheckContext, split: Split) -> Sequence[Example[Any]]:
    """Return the examples at hand, or up to MOST_EXAMPLES where the environment gives them quickly.

    One more is asked for, then two, then four: those at hand may be kept somewhere, while each
    new one takes seconds to make.
    """
    rows: Sequence[Example[Any]] = tuple(context.examples.get(split, ()))
    if not rows:
        return []
    known, extra = len(rows), 1
    took = 0.0
    try:
        while len(rows) < MOST_EXAMPLES and took < LOADING_SECONDS:
            began = time.perf_counter()
            count = min(known + extra, MOST_EXAMPLES)
            dataset = await context.environment.create_dataset(split, context.base_dir, max_examples=count)
            more = list(dataset)[:MOST_EXAMPLES]
            took = time.perf_counter() - began
            rows = more if len(more) > len(rows) else rows
            if len(more) < count:
                break
            extra *= 2
    except (Exception, SystemExit):  # noqa: BLE001 - the author's code; the static check reports it
        pass
    return rows


def _make_row(context: CheckContext, example: Example[Any]) -> Row:
    if example.id in context.golds:
        gold = context.golds[example.id]
    else:
        try:
            gold = read_gold(context.environment, example)
        except RuntimeError:  # gold() raised; the probes report it
            gold = None
    payload = example.payload
    rest = (
        sorted((str(k), repr(v)) for k, v in payload.items() if k != "id")
        if isinstance(payload, Mapping)
        else []
    )
    return Row(id=example.id, question=normalise(question_of(example)), rest=repr(rest), gold=gold_key(gold))


def _finding(level: Level, code: str, message: str, example_id: str | None = None) -> Finding:
    return Finding(level=level, code=code, message=message, check=CHECK, example_id=example_id)
