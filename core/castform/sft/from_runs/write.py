"""Write rows, their token ids and the report, each file whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from castform.errors import RunFailedError
from castform.sft.convert.writing import check_writable, new_file
from castform.sft.from_runs.convert import Converted
from castform.sft.from_runs.report import Report
from castform.sft.from_runs.tokens import encode_token_row, tokens_path


def check_paths(output: Path | None, report: Path | None) -> None:
    """Raise UsageError unless the files can be written and are files of their own."""
    others: tuple[Path, ...] = ()
    if output is not None:
        others = (output, tokens_path(output))
        check_writable(output, "the output", apart_from=())
        check_writable(tokens_path(output), "the file of token ids", apart_from=())
    if report is not None:
        check_writable(report, "the report", apart_from=others)


def write_rows(converted: Converted, path: Path) -> Path | None:
    """Write FILE.jsonl and, beside it, FILE.tokens.jsonl; return the latter, None without sampled ids.

    What was there before is replaced, ids of other rows too. Raises RunFailedError when the disk
    refuses.
    """
    tokens = tokens_path(path)
    if converted.tokens:
        _write(tokens, map(encode_token_row, converted.tokens))
    else:
        try:
            tokens.unlink(missing_ok=True)
        except OSError as error:
            raise RunFailedError(f"cannot remove {tokens}, ids of other rows: {error.strerror}") from error
    _write(path, converted.rows)
    return tokens if converted.tokens else None


def write_report(report: Report, path: Path) -> None:
    """Write a JSON line on every rollout. RunFailedError: the disk refuses."""
    _write(path, (json.dumps(rollout.as_dict()).encode() + b"\n" for rollout in report.rollouts))


def _write(path: Path, lines: Iterable[bytes]) -> None:
    with new_file(path) as file:
        assert file is not None  # there is a path
        for line in lines:
            file.write(line)
        file.keep()
