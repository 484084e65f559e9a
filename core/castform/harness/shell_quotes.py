"""Which quotes are open where a placeholder stands in a shell script: that decides how its value is put there.

Quotes, comments, here-documents and command substitutions of POSIX shells and bash are followed.
A `)` of a `case` inside `$(…)` ends that too early.
"""

from __future__ import annotations

import re
import shlex

_HERE = re.compile(r"<<(-?)[ \t]*(?:\\?([\w.+-]+)|'([^'\n]*)'|\"([^\"\n]*)\")")
_OPENERS = ("$((", "((", "$(", "(", "$'", "'", '"', "`")
_WORD_ENDS = " \t\n;&|()`"
_SPECIAL = re.compile(r'([\\"$`])')
"""In double quotes."""


class ShellQuotes:
    """Reads a script piece by piece and knows what is open."""

    def __init__(self) -> None:
        self._open: list[str] = []
        self._documents: list[tuple[str, bool]] = []
        """Here-documents to come: the line that ends each, and whether tabs before it count."""
        self._line: str | None = None
        """What was read of a line of a here-document; None outside of one."""
        self._before = "\n"

    @property
    def is_document(self) -> bool:
        """Whether a here-document is open: quotes are text there, and a value could end it."""
        return self._line is not None

    @property
    def is_backquoted(self) -> bool:
        """Whether backquotes are open: what stands there is read twice."""
        return "`" in self._open

    @property
    def quote(self) -> str:
        """What is open: `"`, `'`, `$'`, or nothing."""
        return self._open[-1] if self._open and self._open[-1] in ('"', "'", "$'") else ""

    def read(self, text: str) -> None:
        """Go on with more of the script."""
        place = 0
        while place < len(text):
            place = self._read_line(text, place) if self._line is not None else self._read_one(text, place)

    def pass_value(self) -> None:
        """Go on behind a value that stands there as a word."""
        self._before = "x"

    def _read_line(self, text: str, place: int) -> int:
        end = text.find("\n", place)
        if end < 0:
            self._line = (self._line or "") + text[place:]
            return len(text)
        line = (self._line or "") + text[place:end]
        closer, strips = self._documents[0]
        if (line.lstrip("\t") if strips else line) == closer:
            self._documents.pop(0)
        self._line = "" if self._documents else None
        self._before = "\n"
        return end + 1

    def _read_one(self, text: str, place: int) -> int:
        char, top = text[place], self._open[-1] if self._open else ""
        before, self._before = self._before, char
        if top == "#":
            if char != "\n":
                return place + 1
            self._open.pop()
            top = self._open[-1] if self._open else ""
        if char == "\\" and top != "'":
            self._before = "x"
            return place + 2
        closer = {"$'": "'", "(": ")", "((": "))"}.get(top, top)
        if closer and text.startswith(closer, place):
            self._open.pop()
            return place + len(closer)
        if top in ("'", "$'"):
            return place + 1
        if char == "\n" and self._documents:
            self._line = ""
            return place + 1
        if top not in ('"', "(("):
            if char == "#" and before in _WORD_ENDS:
                self._open.append("#")
                return place + 1
            here = None if text.startswith("<<<", place) else _HERE.match(text, place)
            if here is not None:
                self._documents.append((next(g for g in here.groups()[1:] if g is not None), bool(here[1])))
                return here.end()
            if text.startswith("<<<", place):
                return place + 3
        for opener in _OPENERS if top != '"' else ("$((", "$(", "`"):
            if text.startswith(opener, place):
                self._open.append(opener.removeprefix("$") if opener != "$'" else opener)
                return place + len(opener)
        return place + 1


def quote_value(value: str, quote: str) -> str:
    """Return a value as it is written where such quotes are open: one word there, and never code."""
    if quote == '"':
        return _SPECIAL.sub(r"\\\1", value)
    if quote == "'":
        return value.replace("'", "'\\''")
    word = shlex.quote(value)
    return f"'{word}$'" if quote else word


def quote_variable(name: str, quote: str) -> str:
    """Return a reference to a variable, to be written where such quotes are open: its value is one word there."""
    reference = f"${{{name}}}"
    return {"": f'"{reference}"', '"': reference, "'": f"'\"{reference}\"'"}.get(quote, f"'\"{reference}\"$'")
