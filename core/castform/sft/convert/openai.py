"""Finetuning files of OpenAI's chat models, and everything else with `messages` of `role` and `content`.

Read: `messages`, `tools`, `functions` (older), `function_call` and the role `function` (older), `weight`,
content in text parts, the role `developer`. The other columns (`parallel_tool_calls`, ids) are kept.
"""

from __future__ import annotations

from benchmax.sft.wording import shown
from castform.sft.convert.draft import Draft, Place, Row, decoded_list
from castform.sft.convert.messages import read_messages
from castform.sft.convert.notes import RefusedError
from castform.sft.convert.shapes import refuse_other_purposes, refuse_without_turns
from castform.sft.convert.tool_definitions import read_tools

TAKEN = ("messages", "tools", "functions")


def convert_openai(row: Row) -> Draft:
    """Convert a row of `messages`. RefusedError."""
    refuse_other_purposes(row)
    if row.get("messages") is None:
        refuse_without_turns(row, "messages")
    draft = Draft()
    messages = decoded_list(row["messages"], "$.messages", draft)
    if not isinstance(messages, list):
        raise RefusedError("column_type", "$.messages", f"messages is {shown(messages)}, not a list")
    read_tools(row, draft)
    read_messages(messages, message_places("$.messages", len(messages)), draft)
    draft.keep_columns(row, TAKEN)
    return draft


def recognise_openai(row: Row) -> str | None:
    """Return why a row is of this format; None when it is not."""
    messages = row.get("messages")
    if isinstance(messages, str) and messages.lstrip().startswith("["):
        return "`messages` with a list as text"
    if isinstance(messages, list) and messages and isinstance(messages[0], dict) and "role" in messages[0]:
        return "`messages` with `role`"
    return None


def message_places(column: str, count: int, content: str = "content") -> list[Place]:
    """Return where the messages of a column stand."""
    return [Place(f"{column}[{index}]", f"{column}[{index}].{content}") for index in range(count)]
