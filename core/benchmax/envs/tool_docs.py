"""What a docstring says about parameters, in the Google, NumPy and Sphinx styles."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable

GOOGLE_HEADS = frozenset({"args:", "arguments:", "parameters:", "params:"})
GOOGLE_ITEM = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)")
NUMPY_ITEM = re.compile(r"\*{0,2}(\w+(?:\s*,\s*\w+)*)\s*(?::.*)?")
SPHINX_ITEM = re.compile(r":(?:param|parameter|arg|argument)\s+(?:[^:]*\s)?\*{0,2}(\w+)\s*:\s*(.*)")


def first_paragraph(function: Callable[..., object]) -> str:
    """Return the docstring up to its first blank line, on one line; empty without a docstring."""
    return (inspect.getdoc(function) or "").split("\n\n")[0].replace("\n", " ").strip()


def describe_parameters(function: Callable[..., object]) -> dict[str, str]:
    """Return the words for each parameter that the docstring describes, on one line each."""
    lines = (inspect.getdoc(function) or "").splitlines()
    described: dict[str, str] = {}
    for place, line in enumerate(lines):
        below = lines[place + 1 :]
        if line.strip().lower() in GOOGLE_HEADS:
            described |= _google_items(below, _indent(line))
        elif line.strip().lower() == "parameters" and below and re.fullmatch(r"\s*-{3,}\s*", below[0]):
            described |= _numpy_items(below[1:], _indent(line))
        else:
            item = SPHINX_ITEM.fullmatch(line.strip())
            if item:
                more = _deeper(below, _indent(line))
                described[item[1]] = _one_line(item[2], more)
    return {name: words for name, words in described.items() if words}


def _google_items(lines: list[str], outer: int) -> dict[str, str]:
    section = _deeper(lines, outer)
    inner = min((_indent(line) for line in section if line.strip()), default=0)
    items: dict[str, str] = {}
    for place, line in enumerate(section):
        item = GOOGLE_ITEM.fullmatch(line.strip()) if line.strip() and _indent(line) == inner else None
        if item:
            items[item[1]] = _one_line(item[2], _deeper(section[place + 1 :], inner))
    return items


def _numpy_items(lines: list[str], outer: int) -> dict[str, str]:
    items: dict[str, str] = {}
    for place, line in enumerate(lines):
        if place + 1 < len(lines) and re.fullmatch(r"\s*-{3,}\s*", lines[place + 1]):
            break  # the next section's title
        item = NUMPY_ITEM.fullmatch(line.strip()) if line.strip() and _indent(line) == outer else None
        if item:
            words = _one_line("", _deeper(lines[place + 1 :], outer))
            items |= {name.strip(): words for name in item[1].split(",")}
    return items


def _deeper(lines: list[str], outer: int) -> list[str]:
    """Return the lines from the start that are indented more than `outer`; blank ones do not end them."""
    taken: list[str] = []
    for line in lines:
        if line.strip() and _indent(line) <= outer:
            break
        taken.append(line)
    return taken


def _one_line(first: str, more: list[str]) -> str:
    return " ".join(" ".join([first, *more]).split())


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
