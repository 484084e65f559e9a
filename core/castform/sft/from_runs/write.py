"""Write rows and their token ids, each file whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from castform.errors import RunFailedError
from castform.sft.from_runs.convert import Converted
from castform.sft.from_runs.tokens import encode_token_row, tokens_path


def write_rows(converted: Converted, path: Path) -> Path | None:
    """Write FILE.jsonl and, beside it, FILE.tokens.jsonl; return the latter, None without sampled ids.

    What was there before is replaced, ids of other rows too. Raises RunFailedError when the disk
    refuses.
    """
    tokens = tokens_path(path)
    try:
        if converted.tokens:
            _write(tokens, map(encode_token_row, converted.tokens))
        else:
            tokens.unlink(missing_ok=True)
        _write(path, converted.rows)
    except OSError as error:
        raise RunFailedError(f"cannot write {path}: {error.strerror or error}") from error
    return tokens if converted.tokens else None


def _write(path: Path, lines: Iterable[bytes]) -> None:
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with partial.open("wb") as file:
            file.writelines(lines)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
