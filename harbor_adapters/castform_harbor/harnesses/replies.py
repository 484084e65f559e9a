"""Read the commands out of what a model wrote.

The format is a Markdown block of shell (```` ```sh ````) for commands, and the word DONE on a line of
its own for the end. Models write it in many ways; what can only mean one thing is understood.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

SHELL_NAMES = frozenset(
    {"", "sh", "bash", "shell", "zsh", "console", "terminal", "shell-session", "shellscript"}
)
# possessive: a model that repeats itself without end writes lines that are slow to give up on
_FENCE = re.compile(r"^\s{0,3}(`{3,}+|~{3,}+)[ \t]*+([\w+.-]*+)[^\n`]*+$")
_INLINE = re.compile(r"^\s*+```[ \t]*+(?:sh|bash|shell)[ \t]++([^\s`][^\n`]*+)```\s*+$")
_THINKING = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)
_DONE = re.compile(r"[\s*_`#>.!-]*done[\s*_`.!]*", re.IGNORECASE)
_PROMPT = re.compile(r"^\s*(?:[\w.@~:/-]*)?[$#] (.*)$")


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadReply:
    """What a reply asks for."""

    commands: tuple[str, ...] = ()
    """Scripts, to be run one after the other."""
    done: bool = False
    """Whether the model says that the task is complete, once these are run."""


def read_reply(text: str) -> ReadReply:
    """Return the commands of a reply and whether it ends the work. Blocks of other languages are prose.

    A block that nobody closed ends with the reply. DONE counts outside of blocks, and as the whole
    of one.
    """
    commands: list[str] = []
    done = False
    for kind, body in _split(_THINKING.sub("", text)):
        if kind is None:
            done = done or _DONE.fullmatch(body) is not None
            continue
        script = _clean(body, kind)
        if _DONE.fullmatch(script):
            done = True
        elif script and kind in SHELL_NAMES:
            commands.append(script)
    return ReadReply(commands=tuple(commands), done=done)


def _split(text: str) -> list[tuple[str | None, str]]:
    """Return blocks as (language, content), and every line outside of them as (None, line)."""
    parts: list[tuple[str | None, str]] = []
    lines = _list_lines(text)
    place = 0
    while place < len(lines):
        line = lines[place]
        place += 1
        inline = _INLINE.match(line)
        if inline:
            parts.append(("sh", inline.group(1).rstrip(" \t")))
            continue
        fence = _FENCE.match(line)
        if fence is None:
            parts.append((None, line))
            continue
        body = []
        while place < len(lines) and not _closes(lines[place], fence.group(1)):
            body.append(lines[place])
            place += 1
        place += 1
        parts.append((fence.group(2).lower(), "\n".join(body)))
    return parts


def _list_lines(text: str) -> list[str]:
    """Return lines as a shell has them; `splitlines` also ends them at characters that scripts may hold."""
    return text.replace("\r\n", "\n").split("\n")


def _closes(line: str, fence: str) -> bool:
    bare = line.strip()
    return len(bare) >= len(fence) and set(bare) == {fence[0]}


def _clean(body: str, kind: str) -> str:
    """Return a block's script: in a copied terminal session, what stands after the prompts."""
    lines = _list_lines(body.strip("\n"))
    typed = [
        match.group(1)
        for line in lines
        if (match := _PROMPT.match(line)) and not line.lstrip().startswith("#")
    ]
    whole_session = bool(typed) and (kind == "console" or len(typed) == len([x for x in lines if x.strip()]))
    return "\n".join(typed if whole_session else lines).strip()
