"""The text of a completion that a reward may look at: what the assistant said, nothing else."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

# Any: messages are JSON of whatever server and tools there were.
Completion: TypeAlias = str | Sequence[Mapping[str, Any]]
"""A text, or a transcript of chat messages."""

_OPENING = re.compile(r"<answer>", re.IGNORECASE)
_CLOSING = re.compile(r"</answer>", re.IGNORECASE)


def extract_completion_text(completion: Completion) -> str:
    """Return the final assistant text, stripped.

    Of a transcript that is the content of the last message, if the assistant wrote it,
    with text parts joined; a transcript that ends with a tool or a user has none.
    """
    if isinstance(completion, str):
        return completion.strip()
    last = completion[-1] if completion else None
    return message_text(last).strip() if is_assistant(last) else ""


def is_assistant(message: object) -> bool:
    """Whether the value is a chat message of the assistant."""
    return isinstance(message, Mapping) and message.get("role") == "assistant"


def message_text(message: object) -> str:
    """Return a message's content as text: parts joined, null and images as nothing."""
    content = message.get("content") if isinstance(message, Mapping) else None
    if isinstance(content, str):
        return content
    if not isinstance(content, (list, tuple)):
        return ""
    return "".join(_part_text(part) for part in content)


def extract_answer_block(text: str | None, *, strict: bool = False) -> str:
    """Return the inside of the first `<answer>...</answer>`, stripped; tags in any case.

    Without a closed block: the whole text, or "" when `strict`, which pays only those who
    keep to the form.
    """
    if not text:
        return ""
    opening = _OPENING.search(text)
    closing = _CLOSING.search(text, opening.end()) if opening else None
    if opening and closing:
        return text[opening.end() : closing.start()].strip()
    return "" if strict else text.strip()


def _part_text(part: object) -> str:
    if isinstance(part, str):
        return part
    text = part.get("text") if isinstance(part, Mapping) else None
    return text if isinstance(text, str) else ""
