"""Reading a Dockerfile: lines, continuations, here-documents, flags and variables."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from castform.sandbox.errors import UsageError

_DIRECTIVE = re.compile(r"#\s*(\w+)\s*=\s*(\S+)\s*\Z")
_HEREDOC = re.compile(r"\d*<<(-?)(?:'([\w.]+)'|\"([\w.]+)\"|([\w.]+))\Z")
_WORD = re.compile(r"(?:'[^']*'|\"(?:\\.|[^\"\\])*\"|\\.|[^\s'\"\\]|['\"\\])+", re.DOTALL)
_FLAG = re.compile(r"--([a-z-]+)(?:=(\S*))?(?:\s+|\Z)")
_VARIABLE = re.compile(r"(?P<name>\w+)(?:(?P<sign>:?[-+])(?P<word>.*))?\Z", re.DOTALL)
_TAKES_HEREDOCS = frozenset({"RUN", "COPY", "ADD"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Heredoc:
    """A document that stands below its instruction."""

    name: str
    text: str
    plain: bool
    """Quoted: variables in it are left alone."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Instruction:
    """One instruction, its continuation lines joined."""

    line: int
    """Of its first word, from 1."""
    word: str
    """In capitals."""
    rest: str
    flags: tuple[tuple[str, str], ...] = ()
    heredocs: tuple[Heredoc, ...] = ()

    def refuse(self, reason: str, *, hint: str | None = None) -> UsageError:
        """Return the error that names the line and why it is not done."""
        return UsageError(
            f"line {self.line} of the Dockerfile, {self.word} {self.rest[:80]}: {reason}",
            hint=hint or "the docker provider runs every Dockerfile",
        )

    def exec_form(self) -> list[str] | None:
        """Return the words of `["a", "b"]`; None where it is written as a shell's line."""
        if not self.rest.startswith("["):
            return None
        try:
            words = json.loads(self.rest)
        except ValueError:
            return None
        return words if isinstance(words, list) and all(isinstance(word, str) for word in words) else None


def parse_dockerfile(text: str) -> list[Instruction]:
    """Return the instructions in order. UsageError, with the line, where there is no sense in one."""
    lines = text.lstrip("\ufeff").splitlines()
    escape = _read_escape(lines)
    found: list[Instruction] = []
    place = 0
    while place < len(lines):
        first = place
        words, place = _join_lines(lines, place, escape)
        if not words:
            continue
        word, _, rest = words.partition(" ")
        if not word.isalpha():
            raise UsageError(f"line {first + 1} of the Dockerfile: {word!r} is no instruction")
        flags, rest = _split_flags(rest.strip())
        heredocs: list[Heredoc] = []
        if word.upper() in _TAKES_HEREDOCS and not rest.startswith("["):
            for match in filter(None, map(_HEREDOC.match, _WORD.findall(rest))):
                heredoc, place = _read_heredoc(lines, place, match, first + 1)
                heredocs.append(heredoc)
        found.append(
            Instruction(line=first + 1, word=word.upper(), rest=rest, flags=flags, heredocs=tuple(heredocs))
        )
    return found


def split_words(text: str, escape: str = "\\") -> list[str]:
    """Return words at blanks, as COPY and ENV have them: quotes hold together and are taken off, variables stay."""
    words: list[str] = []
    current: list[str] = []
    quote = ""
    started = False
    place = 0
    while place < len(text):
        sign = text[place]
        if sign == escape and quote != "'" and place + 1 < len(text):
            current.append(text[place : place + 2] if text[place + 1] == "$" else text[place + 1])
            started = True
            place += 2
            continue
        if quote:
            if sign == quote:
                quote = ""
            else:
                current.append(f"{escape}$" if sign == "$" and quote == "'" else sign)
        elif sign in "\"'":
            quote, started = sign, True
        elif sign.isspace():
            if started:
                words.append("".join(current))
            current, started = [], False
        else:
            current.append(sign)
            started = True
        place += 1
    if started:
        words.append("".join(current))
    return words


def substitute(text: str, variables: Mapping[str, str]) -> str:
    """Fill in `$NAME`, `${NAME}`, `${NAME:-word}` and `${NAME:+word}`; an unknown one is empty, `\\$` is a dollar."""
    parts: list[str] = []
    place = 0
    while place < len(text):
        if text.startswith("\\$", place):
            parts.append("$")
            place += 2
        elif text[place] != "$":
            parts.append(text[place])
            place += 1
        elif text.startswith("${", place) and (end := _find_brace(text, place + 2)) > 0:
            parts.append(_expand(text[place + 2 : end], variables))
            place = end + 1
        elif match := re.compile(r"[A-Za-z_]\w*").match(text, place + 1):
            parts.append(variables.get(match.group(), ""))
            place = match.end()
        else:
            parts.append("$")
            place += 1
    return "".join(parts)


def _expand(body: str, variables: Mapping[str, str]) -> str:
    match = _VARIABLE.match(body)
    if match is None:
        return "${" + body + "}"
    value, sign, word = variables.get(match["name"]), match["sign"], match["word"] or ""
    if sign is None:
        return value or ""
    there = bool(value) if sign.startswith(":") else value is not None
    if sign.endswith("-"):
        return value or "" if there else substitute(word, variables)
    return substitute(word, variables) if there else ""


def _find_brace(text: str, place: int) -> int:
    depth = 1
    while place < len(text):
        if text.startswith("${", place):
            depth += 1
        elif text[place] == "}":
            depth -= 1
            if depth == 0:
                return place
        place += 1
    return -1


def _read_escape(lines: list[str]) -> str:
    for line in lines:
        match = _DIRECTIVE.match(line.strip())
        if match is None:
            break
        if match.group(1).lower() == "escape" and match.group(2) in "\\`":
            return match.group(2)
    return "\\"


def _join_lines(lines: list[str], place: int, escape: str) -> tuple[str, int]:
    """Return one instruction's text and the line after it; comments and empty lines in between are left out."""
    parts: list[str] = []
    while place < len(lines):
        line = lines[place]
        place += 1
        if line.lstrip().startswith("#") or (parts and not line.strip()):
            continue
        stripped = line.rstrip()
        if stripped.endswith(escape):
            parts.append(stripped[:-1])
            continue
        parts.append(stripped)
        break
    return "".join(parts).strip().replace("\t", " ") if parts else "", place


def _split_flags(rest: str) -> tuple[tuple[tuple[str, str], ...], str]:
    flags: list[tuple[str, str]] = []
    while match := _FLAG.match(rest):
        flags.append((match.group(1), match.group(2) or ""))
        rest = rest[match.end() :]
    return tuple(flags), rest


def _read_heredoc(lines: list[str], place: int, match: re.Match[str], line: int) -> tuple[Heredoc, int]:
    name = match.group(2) or match.group(3) or match.group(4)
    strips = match.group(1) == "-"
    body: list[str] = []
    while place < len(lines):
        words = lines[place].lstrip("\t") if strips else lines[place]
        place += 1
        if words == name:
            plain = match.group(4) is None
            return Heredoc(name=name, text="".join(f"{one}\n" for one in body), plain=plain), place
        body.append(words)
    raise UsageError(f"line {line} of the Dockerfile: the document {name} has no end")
