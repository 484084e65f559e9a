"""Calls and results that are written as text in tags, as the Hermes models and Qwen write them.

    <tool_call>                                          <tool_response>
    {"name": "find", "arguments": {"city": "Bern"}}      12 C
    </tool_call>                                         </tool_response>

Only text that is beyond doubt is taken apart: a call or result whose own text has such tags in it is not.
"""

from __future__ import annotations

import re

from benchmax.sft.parsing import UnreadableError, parse_text

OPENS, CLOSES = "<tool_call>", "</tool_call>"
_RESULT = re.compile(r"<tool_response>((?:(?!</?tool_response>).)*+)</tool_response>\s*+", re.DOTALL)


def split_calls(text: str) -> tuple[str, list[str]] | None:
    """Return what stands before the calls of a turn, and each call as it is spelled.

    None for a turn that does not end on calls in tags, each a JSON object.
    """
    calls, kept, end = list[str](), 0, _end_of_text(text, len(text))
    while text.endswith(CLOSES, 0, end):
        kept = text.rfind(OPENS, 0, end)
        inner = text[kept + len(OPENS) : end - len(CLOSES)]
        if kept < 0 or not _is_object(inner):
            return None
        calls.append(inner.strip())
        end = _end_of_text(text, kept)
    return (text[:kept].removesuffix("\n"), calls[::-1]) if calls else None


def split_results(text: str) -> list[str] | None:
    """Return the results that a turn consists of, each without the line ends at its tags.

    None for any other text.
    """
    results, place = list[str](), len(text) - len(text.lstrip())
    while place < len(text):
        found = _RESULT.match(text, place)
        if found is None:
            return None
        results.append(found[1].removeprefix("\n").removesuffix("\n"))
        place = found.end()
    return results or None


def _is_object(text: str) -> bool:
    try:
        return isinstance(parse_text(text), dict)
    except UnreadableError:
        return False


def _end_of_text(text: str, end: int) -> int:
    """Return where the text before a place ends, but for space."""
    while end and text[end - 1].isspace():
        end -= 1
    return end
