"""Rows of a dataset: read, checked against what the prompt and the rewards need, and split.

A row is a JSON object. What is wrong with rows is told once for each kind of fault, with
the first row that has it and how many more do.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmax.envs import Example, canonical_example_id
from benchmax.envs.base.rollout import PROMPT_FIELD, read_payload
from benchmax.envs.special_files import is_special_file
from castform.plugins.names import normalize_name, quote_names, suggest_names

DEFAULT_HELD_OUT = 0.2
"""Share of the rows of a file, or of inline rows, that only evaluation sees."""
MOST_LINES = 5
"""Broken lines of one file that are named."""
ANSWER_FIELDS = ("ground_truth", "answer")
"""Where the right answer is looked for, in this order."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One row, and where it stands."""

    place: str
    """`file.jsonl:3`, `row 3` or the example's id."""
    fields: Mapping[str, Any]
    id: str = ""
    """Of the example it came from. Empty: its content, or its field `id`, names it."""


def read_jsonl(path: Path, shown: str) -> tuple[list[Row], list[str]]:
    """Return the rows of a file and what is wrong with it. `shown` names it in messages."""
    try:
        if is_special_file(path):
            return [], [f"the file {shown} cannot be read: it is a pipe or a device"]
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        return [], [f"the file {shown} does not exist; a relative path starts at {path.parent}"]
    except (OSError, ValueError) as error:  # a name with a NUL in it, text that is not UTF-8
        reason = getattr(error, "strerror", None) or error
        return [], [f"the file {shown} cannot be read: {reason}"]
    rows: list[Row] = []
    faults: list[str] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            faults.append(f"{shown}:{number} is not JSON: {error}")
            continue
        if isinstance(value, dict):
            rows.append(Row(place=f"{shown}:{number}", fields=value))
        else:
            faults.append(f"{shown}:{number} is {type(value).__name__}, not a JSON object")
    if not rows and not faults:
        faults.append(f"the file {shown} has no rows")
    more = len(faults) - MOST_LINES
    return rows, [
        *faults[:MOST_LINES],
        *([f"{more} more lines of {shown} cannot be used"] if more > 0 else []),
    ]


def number_rows(rows: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Return inline rows, named by their number from 1."""
    return [Row(place=f"row {number}", fields=row) for number, row in enumerate(rows, start=1)]


@dataclass(slots=True)
class RowFaults:
    """What is wrong with rows: each kind of fault once."""

    found: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Fault to (first place, count)."""

    def add(self, place: str, fault: str) -> None:
        first, count = self.found.get(fault, (place, 0))
        self.found[fault] = (first, count + 1)

    def lines(self) -> list[str]:
        """Return one line a kind of fault."""
        return [
            f"{place} {fault}" + (f" (and {count - 1} more rows)" if count > 1 else "")
            for fault, (place, count) in self.found.items()
        ]


def describe_missing(name: str, row: Mapping[str, Any]) -> str:
    """Return words for a field that a row lacks."""
    known = {normalize_name(str(key)): str(key) for key in row}
    close = suggest_names(name, known)
    meant = f"; did you mean {known[close[0]]!r}?" if close else ""
    return f"has no field {name!r} (it has {quote_names(map(str, row)) or 'none'}{meant})"


def answer_field(row: Mapping[str, Any], gold: str) -> str | None:
    """Return the field with the right answer: the one that is named, else ground_truth, else answer."""
    if gold:
        return gold if gold in row else None
    return next((name for name in ANSWER_FIELDS if name in row), None)


def make_examples(
    rows: Sequence[Row],
    fill: Callable[[Mapping[str, Any]], list[dict[str, str]]] | None,
    faults: RowFaults,
) -> list[Example[Mapping[str, Any]]]:
    """Return an example for every row that can be one; without `fill` its own prompt_messages are the prompt."""
    examples: list[Example[Mapping[str, Any]]] = []
    places: dict[str, str] = {}
    for row in rows:
        payload = dict(row.fields)
        try:
            if fill is not None:
                payload[PROMPT_FIELD] = fill(row.fields)
            read_payload(payload)
            id = row.id or _name_row(row.fields)
        except (KeyError, TypeError, ValueError) as error:
            if not isinstance(error, KeyError):  # a missing field is told in words of its own
                faults.add(row.place, f"cannot be used: {error}")
            continue
        if id in places:
            faults.add(row.place, f"repeats {places[id]}")
            continue
        places[id] = row.place
        examples.append(Example(id, payload))
    return examples


def _name_row(fields: Mapping[str, Any]) -> str:
    given = fields.get("id")
    named = given if isinstance(given, str) else str(given) if type(given) is int else ""
    return named.strip() or canonical_example_id(dict(fields))


def hold_out(
    examples: Sequence[Example[Mapping[str, Any]]], share: float
) -> tuple[list[Example[Mapping[str, Any]]], list[Example[Mapping[str, Any]]]]:
    """Return (train, eval), each in the order given.

    A hash of what the model is shown decides, so rows with one prompt lie on one side, and a
    row stays on its side when others are added. Where that leaves a side empty, the prompt that is
    nearest to the border changes over.
    """
    positions = [_position(example.payload[PROMPT_FIELD]) for example in examples]
    distinct = sorted(set(positions))
    out = [position for position in distinct if position < share] or distinct[:1]
    border = out[-1] if len(out) < len(distinct) or len(distinct) < 2 else distinct[-2]
    held = [position <= border for position in positions]
    return (
        [example for example, out in zip(examples, held, strict=True) if not out],
        [example for example, out in zip(examples, held, strict=True) if out],
    )


def _position(prompt: Any) -> float:
    """Return a number from 0 to 1 that the messages decide."""
    text = json.dumps(prompt, sort_keys=True, ensure_ascii=True, default=str)
    digest = hashlib.sha256(f"castform held out\n{text}".encode()).digest()
    return int.from_bytes(digest[:6], "big") / 2**48
