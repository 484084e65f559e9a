"""Prompts with fields of the row in them: `{question}` stands for what the row has there.

A template is taken apart once and then filled in one pass: what a row holds is text,
braces and all, and is never read as a template.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from castform.compose.settings import PromptMessage

_TOKEN = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_FIELD = re.compile(r"[A-Za-z_][\w.-]*")


@dataclass(frozen=True, kw_only=True, slots=True)
class Template:
    """A text in pieces: literal, field, literal, field, …, literal."""

    literals: tuple[str, ...]
    fields: tuple[str, ...]

    def fill(self, row: Mapping[str, Any]) -> str:
        """Return the text for a row. KeyError for a field that it lacks."""
        pieces = [self.literals[0]]
        for name, literal in zip(self.fields, self.literals[1:], strict=True):
            pieces += [show_value(row[name]), literal]
        return "".join(pieces)


def parse_template(text: str) -> Template:
    """Take a template apart. ValueError for a brace that is neither a field nor doubled."""
    literals, fields = [""], []
    place = 0
    for token in _TOKEN.finditer(text):
        literals[-1] += text[place : token.start()]
        place = token.end()
        if token[0] in ("{{", "}}"):
            literals[-1] += token[0][0]
        elif token[1] is not None and _FIELD.fullmatch(token[1]):
            fields.append(token[1])
            literals.append("")
        else:
            raise ValueError(
                f"{token[0]!r} at character {token.start() + 1} is not a field of the row; write {{{{ and }}}} "
                "for braces that are meant as such"
            )
    literals[-1] += text[place:]
    return Template(literals=tuple(literals), fields=tuple(fields))


def show_value(value: object) -> str:
    """Return a row's value as the model reads it: text as it is, all else as JSON."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, default=str)


@dataclass(frozen=True, kw_only=True, slots=True)
class PromptTemplate:
    """The messages of a prompt."""

    messages: tuple[tuple[str, Template], ...]
    """(role, text)."""

    @property
    def fields(self) -> list[str]:
        """The fields that a row must have, each once."""
        return list(dict.fromkeys(name for _, text in self.messages for name in text.fields))

    def fill(self, row: Mapping[str, Any]) -> list[dict[str, str]]:
        """Return the messages for a row."""
        return [{"role": role, "content": text.fill(row)} for role, text in self.messages]


def parse_prompt(messages: Sequence[PromptMessage]) -> tuple[PromptTemplate, list[str]]:
    """Return the template and what is wrong with it, one line a message."""
    parsed, faults = [], []
    for message in messages:
        try:
            parsed.append((message.role, parse_template(message.content)))
        except ValueError as error:
            faults.append(f"the {message.role} message: {error}")
    if messages and messages[-1].role == "assistant":
        faults.append("the last message is the assistant's, so there is nothing to answer")
    return PromptTemplate(messages=tuple(parsed)), faults
