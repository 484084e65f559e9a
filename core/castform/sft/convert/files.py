"""One file to another: format, rows, report."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from castform.errors import UsageError
from castform.sft.convert.conversion import RowOutcome, convert_rows
from castform.sft.convert.formats import FORMATS, SAMPLE_ROWS, Detection, NoRowError, detect_format
from castform.sft.convert.notes import Note
from castform.sft.convert.report import ConversionTally, note_as_dict, report_line
from castform.sft.convert.source import SourceFile
from castform.sft.convert.writing import check_writable, new_file

CHECK_FILE = "check that this is the file you mean"


@dataclass(frozen=True, kw_only=True, slots=True)
class Conversion:
    """What a conversion came to."""

    format: str
    reason: str | None
    """Why this format was detected; None when it was given."""
    written_as: str
    """How the rows stood in the source."""
    output: Path | None
    """The file that was written; None when none was."""
    report: Path | None
    file_notes: tuple[Note, ...]
    """What was done to read the file as a whole."""
    tally: ConversionTally

    def as_dict(self) -> dict[str, Any]:
        """Return all of it for JSON."""
        return {
            "format": self.format,
            "detected": self.reason,
            "read_as": self.written_as,
            "output": None if self.output is None else str(self.output),
            "report": None if self.report is None else str(self.report),
            "file": [note_as_dict(note) for note in self.file_notes],
            **self.tally.as_dict(),
        }


def convert_file(
    path: Path,
    *,
    name: str | None = None,
    output: Path | None = None,
    report: Path | None = None,
    drop: Iterable[str] = (),
) -> Conversion:
    """Convert a file; without an output only say what would come of it. Memory: for one row.

    A row that cannot be converted is refused and counted; the others are written. UsageError: the
    file cannot be read, its format cannot be told, or a file cannot be written there.
    """
    if output is not None:
        check_writable(output, "the output", apart_from=(path,))
    if report is not None:
        check_writable(report, "the report", apart_from=(path, *([output] if output else [])))
    source = SourceFile(path)
    found = Detection(name=name, reason="") if name is not None else _detect(source)
    outcomes = convert_rows(source.rows(), FORMATS[found.name].convert, drop=frozenset(drop))
    tally, written = write_outcomes(outcomes, output=output, report=report)
    if not tally.rows:
        raise UsageError(f"{path} has no rows", hint=CHECK_FILE)
    return Conversion(
        format=found.name,
        reason=None if name is not None else found.reason,
        written_as=source.written_as,
        output=written,
        report=report,
        file_notes=tuple(source.notes),
        tally=tally,
    )


def write_outcomes(
    outcomes: Iterable[RowOutcome], *, output: Path | None, report: Path | None
) -> tuple[ConversionTally, Path | None]:
    """Write the rows and the report on them, each whole or not at all; return the counts and the output.

    Without a row that can be written there is no output, and what was under its name stays.
    """
    tally = ConversionTally()
    with new_file(output) as rows, new_file(report) as lines:
        for outcome in outcomes:
            place = None if outcome.data is None else tally.written
            tally.add(outcome)
            if rows is not None and outcome.data is not None:
                rows.write(outcome.data + b"\n")
            if lines is not None:
                lines.write(report_line(outcome, place))
        if lines is not None and tally.rows:
            lines.keep()
        if rows is not None and tally.written:
            rows.keep()
            return tally, output
    return tally, None


def _detect(source: SourceFile) -> Detection:
    faults: list[str] = []
    is_empty = True

    def readable() -> Iterator[object]:
        nonlocal is_empty
        for row in itertools.islice(rows, SAMPLE_ROWS):
            is_empty = False
            if row.fault is None:
                yield row.value
            else:
                faults.append(f"line {row.line}: {row.fault.message}")

    with closing(source.rows()) as rows:
        try:
            return detect_format(readable())
        except NoRowError as error:
            if is_empty:
                raise UsageError(f"{source.path} has no rows", hint=CHECK_FILE) from error
            if not faults:
                raise
            raise UsageError(f"{error}; the first fault is in {faults[0]}", hint=error.hint) from error
