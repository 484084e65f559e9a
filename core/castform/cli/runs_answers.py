"""`castform runs answers`: what a finetuned model answers to held-out rows, before and after."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from castform.cli.output import print_json, print_note, print_table, print_text
from castform.errors import UsageError
from castform.safe_text import safe_line
from castform.sft.answers import LABELS, Answer, HeldOutAnswers, describe_answers, read_comparison

if TYPE_CHECKING:
    from castform.runs import RunStore

WIDTH = 48


def show_answers(store: RunStore, args: argparse.Namespace) -> int:
    """Show the answers of a run side by side; UsageError when it has none."""
    record = store.find_run(args.run_id)
    found: dict[str, HeldOutAnswers] = {}
    for when, label in LABELS.items():
        records = store.list_evals(record.run_id, label=label)
        if records:
            found[when] = HeldOutAnswers.from_dict(records[-1].result)
    if "before" not in found:
        raise UsageError(
            f"run {record.run_id} has no answers to held-out rows",
            hint="`castform sft train FILE --eval FILE` makes some, unless eval.answers is 0",
        )
    verdicts = store.list_evals(record.run_id, label="verdict")
    exact_match = read_comparison(verdicts[-1].result) if verdicts else None
    rows = _join(found)
    if args.json:
        print_json(
            {
                "run_id": record.run_id,
                **{
                    when: found[when].as_dict(with_answers=False) if when in found else None
                    for when in LABELS
                },
                "rows": [
                    {"row": row, "expected": each[0].expected}
                    | {
                        when: {"text": answer.text, "correct": answer.correct, "cut": answer.cut}
                        for when, answer in zip(found, each, strict=True)
                    }
                    for row, each in rows.items()
                ],
            }
        )
        return 0
    shown = {row: each for row, each in rows.items() if args.all or _differs(each)}
    print_table(
        ["ROW", "EXPECTED", *(when.upper() for when in found)],
        [[row, _cut(each[0].expected), *map(_cell, each)] for row, each in shown.items()],
    )
    if exact_match is not None:
        print_text()
        print_text(describe_answers(exact_match, loss=verdicts[-1].result["word"]))
    if len(shown) < len(rows):
        print_note(f"{len(rows) - len(shown)} rows with the same answer as before are left out (--all)")
    return 0


def _join(found: dict[str, HeldOutAnswers]) -> dict[int, list[Answer]]:
    """Return the answers to each row, in the order of `found`."""
    rows: dict[int, list[Answer]] = {}
    for measured in found.values():
        for answer in measured.answers:
            rows.setdefault(answer.row, []).append(answer)
    return rows


def _differs(answers: list[Answer]) -> bool:
    return len(answers) < 2 or answers[0].text != answers[1].text


def _cell(answer: Answer) -> str:
    mark = "right" if answer.correct else "cut" if answer.cut else "wrong"
    return f"{mark}: {_cut(answer.text)}"


def _cut(text: str) -> str:
    line = safe_line(text)
    return line if len(line) <= WIDTH else f"{line[: WIDTH - 1]}…"
