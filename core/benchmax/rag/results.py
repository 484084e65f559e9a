"""Search results as a model reads them, and which documents a transcript shows to have been found.

Only the numbered line above a result names its source. Everything that comes out of the
document is indented, whatever line breaks it holds, so that no document can pretend to be a
result or count as found because its text says `[source: x]`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from benchmax.rag.search import SearchResult
from benchmax.rag.sources import canonicalize_source_id, plain_name
from benchmax.rewards.deterministic.completion import is_assistant, message_text

MAX_OUTPUT_CHARACTERS = 10_000
CUT = "\n...[cut: the results have more than 10,000 characters]"
INDENT = "   "
NOTHING_FOUND = "No results."
SEARCH_TOOL = "search"
_HEADER = re.compile(r"^\d+\. — \[source: ([^\[\]\n]+)\] \(score: [^()\n]*\)$", re.MULTILINE)


def format_results(results: Iterable[SearchResult]) -> str:
    """Return the results as a tool message, cut at 10,000 characters.

    A result that is not shown at all because of that does not count as found. TypeError: a
    result is not a mapping with a text as `content` and one as `source`.
    """
    text = ""
    for place, result in enumerate(results, start=1):
        block = _format_result(place, result)
        room = MAX_OUTPUT_CHARACTERS - len(CUT) - len(text)
        if len(block) <= room:
            text += block
            continue
        header = block.split("\n", 1)[0]
        return (text + block[:room] if len(header) + len(INDENT) < room else text).rstrip() + CUT
    return text.strip("\n") or NOTHING_FOUND


def extract_source_ids(tool_text: str) -> set[str]:
    """Return the canonical names of the documents that the tool messages of `format_results` show."""
    return {canonicalize_source_id(name) for name in _HEADER.findall(tool_text)} - {""}


def search_text(messages: Sequence[Mapping[str, Any]], tool_names: Iterable[str] = (SEARCH_TOOL,)) -> str:
    """Return what the search tools answered in a transcript, one message after the other."""
    names = set(tool_names)
    asked = {
        call.get("id")
        for message in messages
        if is_assistant(message)
        for call in message.get("tool_calls") or ()
        if isinstance(call, Mapping) and (call.get("function") or {}).get("name") in names
    }
    answers = (m for m in messages if m.get("role") == "tool" and m.get("tool_call_id") in asked)
    return "\n".join(message_text(message) for message in answers)


def retrieved_sources(
    messages: Sequence[Mapping[str, Any]], tool_names: Iterable[str] = (SEARCH_TOOL,)
) -> set[str]:
    """Return the canonical names of the documents that a transcript's searches brought up."""
    return extract_source_ids(search_text(messages, tool_names))


def _format_result(place: int, result: SearchResult) -> str:
    if not isinstance(result, Mapping):
        raise TypeError(f"a search result must be a mapping, not {type(result).__name__}")
    content, source = result.get("content"), result.get("source")
    if not isinstance(content, str) or not isinstance(source, str):
        raise TypeError("a search result must have a text as 'content' and one as 'source'")
    name = plain_name(source) or "unnamed"
    lines = [f"{place}. — [source: {name}] (score: {_score(result.get('score'))})"]
    metadata = result.get("metadata")
    if isinstance(metadata, Mapping) and metadata:
        lines += _indented(json.dumps(dict(metadata), ensure_ascii=False, default=str, sort_keys=True))
    return "\n".join([*lines, *_indented(content)]) + "\n\n"


def _indented(text: str) -> list[str]:
    return [INDENT + line for line in text.splitlines()]


def _score(score: object) -> str:
    is_number = isinstance(score, (int, float)) and not isinstance(score, bool)
    return f"{score:.3f}" if is_number and math.isfinite(score) else "none"  # type: ignore[arg-type]  # a number
