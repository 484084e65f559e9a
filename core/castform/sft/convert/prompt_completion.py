"""Prompt and completion, as text or as messages, as TRL and OpenAI's older models take them.

Only the completion is trained on: assistant messages of the prompt get weight 0. Rows with `messages`
in their place, TRL's other conversational form, are read as those of OpenAI.
"""

from __future__ import annotations

from typing import Any

from benchmax.sft.parsing import UnreadableError, parse_text
from benchmax.sft.wording import shown
from castform.sft.convert.draft import Draft, Place, Row
from castform.sft.convert.messages import read_messages
from castform.sft.convert.notes import RefusedError
from castform.sft.convert.openai import convert_openai, message_places
from castform.sft.convert.shapes import refuse_other_purposes, refuse_without_turns
from castform.sft.convert.tool_definitions import read_tools

TAKEN = ("prompt", "completion", "tools", "functions")


def convert_prompt_completion(row: Row) -> Draft:
    """Convert a row of `prompt` and `completion`, or of `messages`. RefusedError."""
    refuse_other_purposes(row)
    if row.get("prompt") is None and row.get("completion") is None:
        if row.get("messages") is not None:
            return convert_openai(row)
        refuse_without_turns(row, "prompt and completion, or messages")
    for key in ("prompt", "completion"):
        if not row.get(key):
            code = "completion_missing" if key == "completion" else "column_type"
            raise RefusedError(code, f"$.{key}", f"the {key} is missing or empty")
    draft = Draft()
    messages, places = _messages(row, "prompt", "user", draft)
    for message, place in zip(messages, places, strict=True):
        is_answer = isinstance(message, dict) and message.get("role") == "assistant"
        if is_answer and message.get("weight", 1) != 0:
            draft.note("weight_zero", place.message, "an assistant message of the prompt")
            message["weight"] = 0
    more, more_places = _messages(row, "completion", "assistant", draft)
    read_tools(row, draft)
    read_messages(messages + more, places + more_places, draft)
    draft.keep_columns(row, TAKEN)
    return draft


def recognise_prompt_completion(row: Row) -> str | None:
    """Return why a row is of this format; None when it is not."""
    return "`prompt` and `completion`" if "prompt" in row and "completion" in row else None


def _messages(row: Row, key: str, role: str, draft: Draft) -> tuple[list[Any], list[Place]]:
    value, location = row[key], f"$.{key}"
    found = _spelled_messages(value) if isinstance(value, str) else value
    if isinstance(value, str) and found is None:
        if key == "completion" and len(value) > 1 and value[0] == " " and not value[1].isspace():
            draft.note(
                "leading_space_removed", location, "tokenizers of old needed it, chat templates do not"
            )
            value = value[1:]
        return [{"role": role, "content": value}], [Place(location, location)]
    if isinstance(value, str):
        draft.note("decoded", location, "the column held JSON as text")
    if isinstance(found, dict):
        found = [found]
    if not isinstance(found, list):
        raise RefusedError("column_type", location, f"{key} is {shown(found)}, neither text nor messages")
    messages = [dict(message) if isinstance(message, dict) else message for message in found]
    return messages, message_places(location, len(messages))


def _spelled_messages(text: str) -> list[Any] | None:
    """Return messages that are written as JSON text; None for text that is only text."""
    if text.lstrip()[:1] != "[":
        return None
    try:
        found = parse_text(text)
    except UnreadableError:
        return None
    is_talk = isinstance(found, list) and bool(found)
    return found if is_talk and all(isinstance(each, dict) and "role" in each for each in found) else None
