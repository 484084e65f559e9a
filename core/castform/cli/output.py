"""Data on stdout: tables for people, JSON for programs. Talk goes to stderr."""

from __future__ import annotations

import contextlib
import math
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, TextIO

_data_stream: ContextVar[TextIO | None] = ContextVar("castform_data_stream", default=None)


@contextlib.contextmanager
def keep_stdout_for_data() -> Iterator[None]:
    """Inside, only this module writes to stdout; what anybody else prints there goes to stderr.

    That includes processes that environment code starts, where stdout is the real one.
    """
    with contextlib.ExitStack() as stack:
        data = sys.stdout
        try:
            is_real = data.fileno() == 1
        except (OSError, ValueError, AttributeError):  # a program that calls main() collects it
            is_real = False
        if is_real:
            data = stack.enter_context(_move_stdout(data))
        token = _data_stream.set(data)
        stack.callback(_data_stream.reset, token)
        stack.enter_context(contextlib.redirect_stdout(sys.stderr))
        yield


@contextlib.contextmanager
def _move_stdout(stdout: TextIO) -> Iterator[TextIO]:
    """Yield a stream on the present stdout and let descriptor 1 be stderr until the block ends."""
    stdout.flush()
    kept = os.dup(1)
    stream = os.fdopen(kept, "w", encoding=stdout.encoding, errors="backslashreplace")
    os.dup2(2, 1)
    try:
        yield stream
        stream.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), kept)  # so that closing it does not meet the same fault
        raise
    finally:
        os.dup2(kept, 1)
        stream.close()


def _stdout() -> TextIO:
    return _data_stream.get() or sys.stdout or sys.stderr  # a process may be started without a stdout


def print_json(value: Any) -> None:  # anything json can write
    """Write one JSON document. JSON has no NaN and no infinity: they become null."""
    import json

    try:
        text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False, default=str)
    except ValueError:
        text = json.dumps(_without_nonfinite(value), indent=2, ensure_ascii=False, default=str)
    _stdout().write(_escape_json(text) + "\n")


def print_text(text: str = "") -> None:
    """Write data as text, control characters as escapes."""
    _stdout().write(_safe(text) + "\n")


def print_marked(pieces: Sequence[tuple[str, bool]]) -> None:
    """Write text in which some pieces are marked: in colour on a terminal, else in double brackets.

    NO_COLOR asks for the brackets on a terminal, too.
    """
    stream = _stdout()
    coloured = stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    if not coloured:
        print_text("".join(f"[[{text}]]" if marked else text for text, marked in pieces))
        return
    from rich.console import Console
    from rich.text import Text

    text = Text.assemble(*((_safe(piece), "bold green" if marked else "dim") for piece, marked in pieces))
    Console(file=stream, soft_wrap=True, highlight=False).print(text)


def print_note(text: str) -> None:
    """Write a line of talk, after the data that came before it."""
    _stdout().flush()
    sys.stderr.write(_safe(text) + "\n")


def print_clashes(clashes: Mapping[str, Sequence[str]]) -> None:
    """Say which plugin names are claimed more than once."""
    for name, owners in clashes.items():
        print_note(f"note: {' and '.join(owners)} both claim the name {name!r}, so neither can be used")


def print_table(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Write a table: by rich on a terminal, as aligned text elsewhere."""
    cells = [["" if cell is None else _safe(str(cell)).replace("\n", "\\n") for cell in row] for row in rows]
    if _stdout().isatty():
        _print_rich(headers, cells)
        return
    widths = [max([len(h), *(len(row[i]) for row in cells)]) for i, h in enumerate(headers)]
    for row in [list(headers), *cells]:
        print_text("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip())


def print_fields(fields: Mapping[str, object]) -> None:
    """Write name and value pairs, one a line, aligned."""
    width = max(map(len, fields), default=0)
    for name, value in fields.items():
        print_text(f"{name:<{width}}  {'' if value is None else value}".rstrip())


def _safe(text: str) -> str:
    """Plugins, models and datasets write this text: none of it may steer the terminal."""
    if text.isascii() and text.isprintable():
        return text
    from castform.safe_text import safe_text

    return safe_text(text)


def _escape_json(text: str) -> str:
    """Return a JSON document that says the same with JSON's own escapes for what steers a terminal."""
    if text.isascii() and "\x7f" not in text:  # json has escaped the other control characters
        return text
    from castform.safe_text import safe_json

    return safe_json(text)


def _without_nonfinite(value: Any) -> Any:  # anything json can write
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _without_nonfinite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nonfinite(item) for item in value]
    return value


def _print_rich(headers: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for header in headers:
        table.add_column(header, overflow="fold")
    for row in cells:
        table.add_row(*(Text(cell) for cell in row))
    Console(file=_stdout()).print(table)
