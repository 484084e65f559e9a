"""Text from models and environments, made safe to print: no control characters reach the terminal."""

from __future__ import annotations

import unicodedata

_KEPT = frozenset("\n\t")
_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Control, format (bidirectional overrides among them), surrogate, line and paragraph separators."""
_JOINERS = frozenset("\u200d\ufe0f")
"""Parts of emoji and of some scripts, which are harmless."""


def safe_text(text: str) -> str:
    """Return text in which control characters are shown as escapes; line breaks and tabs stay."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_show(character) for character in text)


def safe_line(text: str) -> str:
    """Return text on one line, with line breaks and tabs shown as escapes too."""
    return safe_text(text).replace("\n", "\\n").replace("\t", "\\t")


def safe_json(text: str) -> str:
    """Return a JSON document in which control characters are JSON's own escapes: it says the same."""
    shown = {ord(found): _escape_json(found) for found in set(text) if _is_unsafe(found)}
    return text.translate(shown)


def _escape_json(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def _is_unsafe(character: str) -> bool:
    is_kept = character in _KEPT or character in _JOINERS
    return not is_kept and unicodedata.category(character) in _UNSAFE


def _show(character: str) -> str:
    if not _is_unsafe(character):
        return character
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
