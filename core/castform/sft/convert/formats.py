"""The formats that can be converted from, and which one rows are of."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from benchmax.sft.wording import shown
from castform.errors import UsageError
from castform.sft.convert.alpaca import convert_alpaca, recognise_alpaca
from castform.sft.convert.draft import Draft, Row
from castform.sft.convert.notes import RefusedError
from castform.sft.convert.openai import convert_openai, recognise_openai
from castform.sft.convert.prompt_completion import convert_prompt_completion, recognise_prompt_completion
from castform.sft.convert.shapes import columns, refuse_other_purposes, refuse_without_turns
from castform.sft.convert.sharegpt import convert_sharegpt, recognise_sharegpt

SAMPLE_ROWS = 100


@dataclass(frozen=True, kw_only=True, slots=True)
class Format:
    """One way in which rows are written."""

    summary: str
    convert: Callable[[Row], Draft]
    """From a source row to what becomes of it; RefusedError when it cannot be kept."""
    recognise: Callable[[Row], str | None]
    """Why a row is of this format, in its columns; None when it is not."""


FORMATS: dict[str, Format] = {
    "openai": Format(
        summary="`messages` of `role` and `content`, with `tools` or `functions`",
        convert=convert_openai,
        recognise=recognise_openai,
    ),
    "sharegpt": Format(
        summary="`conversations` of `from` and `value`",
        convert=convert_sharegpt,
        recognise=recognise_sharegpt,
    ),
    "alpaca": Format(
        summary="`instruction`, `input`, `output`, `system` and `history`",
        convert=convert_alpaca,
        recognise=recognise_alpaca,
    ),
    "prompt-completion": Format(
        summary="`prompt` and `completion`, as text or as messages (TRL)",
        convert=convert_prompt_completion,
        recognise=recognise_prompt_completion,
    ),
}
"""By the name that `--from` takes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Detection:
    """Which format rows are of, and why."""

    name: str
    reason: str


class NoRowError(UsageError):
    """There is no row to tell a format by."""


def detect_format(rows: Iterable[object]) -> Detection:
    """Return the one format of these rows. UsageError: of none, or of several."""
    counts: dict[str, int] = {}
    reasons: dict[str, str] = {}
    seen = 0
    other: Row | None = None
    for row in rows:
        if not isinstance(row, dict):
            continue
        seen += 1
        name, reason = recognise(row)
        if name is None:
            other = row if other is None else other
            continue
        counts[name] = counts.get(name, 0) + 1
        reasons.setdefault(name, reason)
    if len(counts) == 1:
        name = next(iter(counts))
        return Detection(name=name, reason=f"{counts[name]} of the first {seen} rows have {reasons[name]}")
    if counts:
        found = ", ".join(f"{count} of {name}" for name, count in counts.items())
        raise UsageError(
            f"the first {seen} rows are of several formats: {found}",
            hint="put each format in a file of its own, or choose one with --from: the others are refused",
        )
    if other is None:
        raise NoRowError("no row is a JSON object, so the format cannot be told", hint=_formats())
    raise UsageError(f"no row is of a format that is known: {_why_unknown(other)}", hint=_formats())


def recognise(row: Row) -> tuple[str | None, str]:
    """Return the name of the format of a row and why; None when it is of none."""
    for name, kind in FORMATS.items():
        reason = kind.recognise(row)
        if reason is not None:
            return name, reason
    return None, ""


def nested_rows(row: Row) -> str | None:
    """Return what to do with an object that is no row, but has rows in a list of its own; None for any other."""
    for key, value in row.items():
        first = value[0] if isinstance(value, list) and value else None
        name, _ = recognise(first) if isinstance(first, dict) else (None, "")
        if name is not None:
            command = f"jq -c {shlex.quote(f'.[{json.dumps(key)}][]')} FILE > rows.jsonl"
            return f"{shown(key)} is a list of {len(value):,} rows of the format {name}; take them out: {command}"
    return None


def _why_unknown(row: Row) -> str:
    nested = nested_rows(row)
    if nested is not None:
        return nested
    try:
        refuse_other_purposes(row)
        refuse_without_turns(row, "")
    except RefusedError as refused:
        if refused.note.code != "unknown_row":
            return refused.note.message
    return f"the first one has {columns(row)}"


def _formats() -> str:
    return "known are " + "; ".join(f"{name} ({kind.summary})" for name, kind in FORMATS.items())
