"""Config files of agents, written from plain data: JSON and TOML.

Values are put into parsed data and then written out, so no value can end a string and add a key.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any, Literal

from castform.harness.shell_quotes import quote_value
from castform.harness.template import STRUCTURED, fill_script, render, render_value, split_template

FileFormat = Literal["json", "toml", "shell", "text"]
_SUFFIXES: Mapping[str, FileFormat] = {
    ".json": "json",
    ".yaml": "json",  # JSON is YAML too
    ".yml": "json",
    ".toml": "toml",
    ".sh": "shell",
    ".bash": "shell",
    ".env": "shell",
}
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_TOML_CONTROLS = {char: f"\\u{char:04X}" for char in (*range(0x20), 0x7F)}


def guess_format(path: str) -> FileFormat:
    """Return the format that a file's name tells; `text` where it tells none."""
    pure = PurePosixPath(path)
    return _SUFFIXES.get(pure.suffix or (pure.name if pure.name == ".env" else ""), "text")


def parse_document(text: str, format: FileFormat) -> dict[str, Any]:
    """Return the data of a JSON or TOML text. ValueError when it is none, or no table."""
    data = json.loads(text) if format == "json" else tomllib.loads(text)
    if not isinstance(data, dict):
        raise ValueError(f"the document is {type(data).__name__}, not a table")
    return data


def list_texts(data: object) -> list[str]:
    """Return every text in plain data, keys included."""
    if isinstance(data, str):
        return [data]
    if isinstance(data, Mapping):
        return [text for item in data.items() for part in item for text in list_texts(part)]
    if isinstance(data, list | tuple):
        return [text for item in data for text in list_texts(item)]
    return []


def render_document(data: object, values: Mapping[str, object]) -> Any:  # plain data, as it came
    """Return plain data with the placeholders of its texts filled in."""
    if isinstance(data, str):
        return render_value(data, values)
    if isinstance(data, Mapping):
        return {str(render_value(k, values)): render_document(v, values) for k, v in data.items()}
    if isinstance(data, list | tuple):
        return [render_document(item, values) for item in data]
    return data


def write_document(data: Mapping[str, Any], format: FileFormat) -> bytes:
    """Return plain data as JSON or TOML, UTF-8."""
    text = json.dumps(data, indent=2, ensure_ascii=False) + "\n" if format == "json" else write_toml(data)
    return text.encode("utf-8", "replace")


def write_content(
    content: str | Mapping[str, Any], format: FileFormat, values: Mapping[str, object]
) -> bytes:
    """Return a file's bytes, its placeholders filled in for its format."""
    if format in ("json", "toml"):
        data = parse_document(content, format) if isinstance(content, str) else content
        return write_document(render_document(data, values), format)
    if format == "shell":
        text = fill_script(str(content), lambda name, quote: quote_value(str(values[name]), quote))
    else:
        text = render(str(content), values)
    return text.encode("utf-8", "replace")


def find_misplaced(text: str) -> set[str]:
    """Return the placeholders in a text that only make sense as a value of their own."""
    pieces = split_template(text)
    names = {p.name for p in pieces if not isinstance(p, str)} & STRUCTURED
    return names if len(pieces) > 1 else set()


def merge_tables(base: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Return both tables as one; where both have a value, `more` wins, tables are merged."""
    merged = dict(base)
    for key, value in more.items():
        old = merged.get(key)
        both = isinstance(old, Mapping) and isinstance(value, Mapping)
        merged[key] = merge_tables(old, value) if both else value  # type: ignore[arg-type]  # both are mappings
    return merged


def write_toml(data: Mapping[str, Any], path: tuple[str, ...] = ()) -> str:
    """Return a table as TOML: its plain values first, then its tables with their full names."""
    lines = [f"{_key(k)} = {_value(v)}" for k, v in data.items() if not isinstance(v, Mapping)]
    lines = [line for line in lines if line]
    tables = [(k, v) for k, v in data.items() if isinstance(v, Mapping)]
    head = f"[{'.'.join(map(_key, path))}]\n" if path and (lines or not tables) else ""
    body = head + "".join(f"{line}\n" for line in lines)
    parts = [body, *(write_toml(table, (*path, key)) for key, table in tables)]
    return "\n".join(part for part in parts if part)


def _key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else _string(name)


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(_value(item) for item in value)}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_key(k)} = {_value(v)}' for k, v in value.items())}}}"
    return _string(str(value))


def _string(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').translate(_TOML_CONTROLS)
    return f'"{escaped}"'
