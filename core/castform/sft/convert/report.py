"""What a conversion did: a line a row for a file, and all rows together for a person."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from castform.sft.convert.conversion import RowOutcome
from castform.sft.convert.notes import Note

MAX_EXAMPLES = 3


@dataclass(kw_only=True, slots=True)
class CodeCount:
    """All notes of one code."""

    rows: int = 0
    """How many rows have it."""
    count: int = 0
    """How often it stands, in all rows together."""
    examples: list[dict[str, Any]] = field(default_factory=list)
    """The first few, with line and row."""


class ConversionTally:
    """Counts outcomes. Always: rows = written + refused."""

    def __init__(self) -> None:
        self.written = 0
        self.same = 0
        self.refused = 0
        self.dropped: set[str] = set()
        """Columns that were dropped of any row."""
        self.notes: dict[str, CodeCount] = {}
        self.refusals: dict[str, CodeCount] = {}

    @property
    def rows(self) -> int:
        return self.written + self.refused

    def add(self, outcome: RowOutcome) -> None:
        """Count one more row."""
        if outcome.data is None:
            self.refused += 1
        else:
            self.written += 1
            self.same += outcome.is_same
        groups = self.refusals if outcome.data is None else self.notes
        for code in dict.fromkeys(note.code for note in outcome.notes):
            groups.setdefault(code, CodeCount()).rows += 1
        for note in outcome.notes:
            if note.code == "column_dropped":
                self.dropped.add(note.location.removeprefix("$."))
            group = groups[note.code]
            group.count += 1
            if len(group.examples) < MAX_EXAMPLES:
                group.examples.append({"line": outcome.line, "row": outcome.row, **note_as_dict(note)})

    def as_dict(self) -> dict[str, Any]:
        """Return the counts, those of codes the most frequent first, for JSON."""
        return {
            "rows": self.rows,
            "written": self.written,
            "unchanged": self.same,
            "refused": self.refused,
            "refusals": _grouped(self.refusals),
            "notes": _grouped(self.notes),
        }


def report_line(outcome: RowOutcome, place: int | None) -> bytes:
    """Return the report on one row as a line of JSON; `place` is its row in the output."""
    status = "refused" if outcome.data is None else "unchanged" if outcome.is_same else "converted"
    found = {
        "line": outcome.line,
        "row": outcome.row,
        "status": status,
        "output_row": place,
        "codes": list(dict.fromkeys(note.code for note in outcome.notes)),
        "notes": [note_as_dict(note) for note in outcome.notes],
    }
    return json.dumps(found, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"


def note_as_dict(note: Note) -> dict[str, str]:
    """Return a note for JSON."""
    return {"code": note.code, "location": note.location, "message": note.message}


def _grouped(groups: dict[str, CodeCount]) -> list[dict[str, Any]]:
    ordered = sorted(groups.items(), key=lambda item: (-item[1].rows, item[0]))
    return [
        {"code": code, "rows": group.rows, "count": group.count, "examples": group.examples}
        for code, group in ordered
    ]
