"""Texts with `{placeholders}`: what they may name, and how values get into them without breaking out.

`{{` and `}}` are literal braces. In a shell script a value never becomes part of the script: it is
passed as an environment variable, and the script holds a quoted reference to it, so that no
instruction and no key can end a quote or start a command. There `${NAME}` is the shell's own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from castform.harness.shell_quotes import ShellQuotes, quote_variable
from castform.plugins.names import suggest_names

PLACEHOLDERS: Mapping[str, str] = {
    "instruction": "what the agent is asked to do",
    "instruction_file": "path of a file that holds it",
    "base_url": "OpenAI-compatible address, ends in /v1",
    "root_url": "the same without /v1, which Anthropic clients want",
    "api_key": "the key, for environment variables and files only",
    "api_key_file": "path of a file that holds the key",
    "model": "name of the model",
    "workdir": "folder that the agent works in",
    "deadline": "Unix time, in whole seconds, at which the agent is killed",
    "timeout_seconds": "whole seconds that the agent has",
    "log_dir": "folder for what the agent logs",
    "run_dir": "folder of this run alone, for configuration; removed afterwards",
    "home": "home folder of the user that the agent runs as",
    "skills_dir": "folder with the task's skills; empty without any",
    "mcp_servers": "table of the task's MCP servers; a value of its own in a JSON or TOML file",
    "mcp_config_file": "path of a JSON file {mcpServers: …} with them",
}
SECRET = "api_key"
STRUCTURED = frozenset({"mcp_servers"})
"""These are tables: they stand alone as a value in a structured file."""

_PIECE = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_SHELL_VARIABLE = re.compile(r"\$\{[^{}]*\}")
VARIABLE_PREFIX = "CASTFORM_"


@dataclass(frozen=True, kw_only=True, slots=True)
class Placeholder:
    """One `{name}` in a text."""

    name: str


Piece = str | Placeholder


class TemplateError(ValueError):
    """A text with braces that mean nothing."""


def split_template(text: str, *, shell: bool = False) -> list[Piece]:
    """Take a text apart. TemplateError names the first brace or placeholder that is wrong."""
    pieces: list[Piece] = []
    place = 0
    for start, end, name in _find_braces(text, shell=shell):
        pieces.append(text[place:start])
        place = end
        if name is None:
            pieces.append(text[start])  # doubled
        elif name in PLACEHOLDERS:
            pieces.append(Placeholder(name=name))
        else:
            close = suggest_names(name, PLACEHOLDERS)
            advice = f"did you mean {{{close[0]}}}?" if close else "literal braces are doubled: {{ and }}"
            raise TemplateError(f"unknown placeholder {{{name}}}; {advice}")
    pieces.append(text[place:])
    return [piece for piece in pieces if piece != ""]


def _find_braces(text: str, *, shell: bool) -> Iterator[tuple[int, int, str | None]]:
    place = 0
    while (found := _PIECE.search(text, place)) is not None:
        start = found.start()
        variable = _SHELL_VARIABLE.match(text, start - 1) if shell and start else None
        if variable is not None:
            place = variable.end()
            continue
        place = found.end()
        token = found.group()
        if token in ("{", "}"):
            raise TemplateError(
                f"a lone {token!r} at character {start}; literal braces are doubled: {token * 2}"
            )
        yield start, place, found.group(1)


def list_placeholders(text: str, *, shell: bool = False) -> set[str]:
    """Return the names in a text. TemplateError for one that is wrong."""
    if shell:
        return render_shell(text)[1]
    return {p.name for p in split_template(text, shell=shell) if isinstance(p, Placeholder)}


def render(text: str, values: Mapping[str, object]) -> str:
    """Put values in as they are: for one argument of a program, a variable, a plain file."""
    return "".join(p if isinstance(p, str) else str(values[p.name]) for p in split_template(text))


def render_value(text: str, values: Mapping[str, object]) -> object:
    """Return what a value of a structured file becomes: alone, a placeholder keeps its type."""
    pieces = split_template(text)
    if len(pieces) == 1 and isinstance(pieces[0], Placeholder):
        return values[pieces[0].name]
    return render(text, values)


def render_shell(script: str) -> tuple[str, set[str]]:
    """Return a script with references in place of placeholders, and the names it refers to.

    Values go in as variables CASTFORM_<NAME>. Quotes that stand around a placeholder are minded:
    `{model}`, `"{model}"` and `'{model}'` all mean the value, whatever is in it. TemplateError for a
    placeholder in a here-document or in backquotes.
    """
    names: set[str] = set()

    def refer(name: str, quote: str) -> str:
        names.add(name)
        return quote_variable(variable_name(name), quote)

    return fill_script(script, refer), names


def fill_script(script: str, write: Callable[[str, str], str]) -> str:
    """Return a script with each placeholder as `write` has it, given its name and the quotes open there.

    TemplateError for one in a here-document or in backquotes.
    """
    written: list[str] = []
    quotes = ShellQuotes()
    for piece in split_template(script, shell=True):
        if isinstance(piece, str):
            quotes.read(piece)
            written.append(piece)
        elif quotes.is_document:
            raise TemplateError(
                f"{{{piece.name}}} stands in a here-document, where a value could end it; pass a file, "
                f"or print it: printf '%s' {{{piece.name}}}"
            )
        elif quotes.is_backquoted:
            raise TemplateError(f"{{{piece.name}}} stands in backquotes; write $(…) instead")
        else:
            written.append(write(piece.name, quotes.quote))
            quotes.pass_value()
    return "".join(written)


def variable_name(name: str) -> str:
    """Return the environment variable that carries a placeholder's value into a script."""
    return VARIABLE_PREFIX + name.upper()
