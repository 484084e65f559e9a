"""What is wrong with a dataset: one issue, the error that carries all of them, and the codes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

SHOWN_ISSUES = 20

CODES: dict[str, str] = {
    "bom": "the file starts with a byte order mark",
    "not_utf8": "the line is not UTF-8 text",
    "duplicate_key": "an object names a key twice",
    "nonfinite_literal": "NaN, Infinity or -Infinity stands where JSON has none",
    "invalid_json": "the line is not one JSON value",
    "too_deep": "more than 64 objects and lists inside one another",
    "empty_dataset": "there is no row at all",
    "key_not_string": "a key is not a string",
    "lone_surrogate": "a string or key holds half of a surrogate pair and has no UTF-8 form",
    "not_finite": "a number is infinite, NaN, or an integer of more than 4300 digits",
    "not_json_type": "a value is not exactly a dict, list, str, int, float, bool or None",
    "row_not_object": "the row is not an object",
    "unknown_key": "an object has a key that the format does not know",
    "tools_not_list": "`tools` is not a list",
    "too_many_tools": "more than 128 tools",
    "tool_not_object": "a tool is not an object",
    "tool_type": 'the `type` of a tool is not "function"',
    "tool_function_missing": "a tool has no `function`",
    "tool_function_not_object": "the `function` of a tool is not an object",
    "tool_name_empty": "the `name` of a tool is missing, empty or not a string",
    "tool_name_duplicate": "two tools have the same name",
    "tool_parameters_missing": "a tool has no `parameters`",
    "tool_parameters_not_object": "the `parameters` of a tool are not an object",
    "tool_parameters_type": 'the `parameters` of a tool declare a `type` other than "object"',
    "tool_description_not_string": "the `description` of a tool is not a string",
    "messages_missing": "the row has no `messages`",
    "messages_not_list": "`messages` is not a list",
    "messages_empty": "`messages` is empty",
    "too_many_messages": "more than 1024 messages",
    "message_not_object": "a message is not an object",
    "role_missing": "a message has no `role`",
    "role_unknown": "the `role` is not system, user, assistant or tool",
    "content_not_string": "the `content` of a system, user or tool message is missing or not a string",
    "content_empty": "the `content` of a system or user message is empty",
    "content_not_string_or_null": "the `content` of an assistant message is neither a string nor null",
    "weight_invalid": "a `weight` is not the integer 0 or 1",
    "tool_calls_empty": "`tool_calls` is there and not a list with calls in it",
    "call_not_object": "a tool call is not an object",
    "call_type": 'the `type` of a tool call is not "function"',
    "call_id_empty": "the `id` of a tool call is missing, empty or not a string",
    "call_id_duplicate": "two tool calls of the row have the same id",
    "call_function_missing": "a tool call has no `function`",
    "call_function_not_object": "the `function` of a tool call is not an object",
    "call_name_empty": "the `name` of a call's function is missing, empty or not a string",
    "call_undefined_function": "a call names a function that is not among the row's tools",
    "arguments_not_string": "the `arguments` of a call are missing or not a string",
    "arguments_invalid_json": "the `arguments` of a call do not decode, or name a key twice",
    "arguments_not_object": "the `arguments` of a call decode to something other than an object",
    "assistant_empty": "an assistant message has neither content nor a tool call",
    "tool_call_id_empty": "the `tool_call_id` of a result is missing, empty or not a string",
    "result_out_of_order": "a result stands before the result of a call that was declared earlier",
    "result_duplicate": "a call has a second result",
    "result_late": "a result stands after a message other than a result",
    "result_unknown_id": "a result names a call that no message before it makes",
    "result_missing": "calls of an assistant message have no result before the next other message",
    "tools_required": "a message makes a tool call and the row defines no tools",
    "metadata_not_object": "`metadata` is not an object",
    "metadata_reserved_prefix": "a key of `metadata` starts with `_castform_`",
    "metadata_reserved_tools": "`metadata` has a key `tools`",
    "metadata_too_large": "`metadata` has more than 65,536 canonical bytes",
    "nothing_to_train": "no assistant message has weight 1 and content or a tool call",
    "row_too_large": "the row has more than 1,048,576 canonical bytes",
}
"""Every code that an issue can have, and what it says. Codes stay; wording may change."""


class Fault(NamedTuple):
    """An issue before it is known which line and row it belongs to."""

    code: str
    location: str
    message: str


@dataclass(frozen=True, slots=True)
class SftIssue:
    """One thing that is wrong, and where."""

    message: str
    location: str
    """Address of the value inside its row: `$` is the row, `$.messages[2].weight` a member."""
    line: int | None = None
    """Physical line of the file, from 1; None for rows that came from no file."""
    row: int | None = None
    """Index of the row, from 0, blank lines not counted; None where no single row is meant."""
    code: str = ""
    """Stable name of the kind of issue, one of CODES (or WARNING_CODES for a warning)."""

    def as_dict(self) -> dict[str, str | int | None]:
        """Return line, location, message and row, for JSON. The code is not among them: `issue.code`."""
        return {"line": self.line, "location": self.location, "message": self.message, "row": self.row}

    def describe(self) -> str:
        """Return the issue as one line: where, then what."""
        places = [f"line {self.line}"] if self.line is not None else []
        places += [f"row {self.row}"] if self.row is not None else []
        return f"{', '.join([*places, self.location])}: {self.message}"


class SftDatasetError(ValueError):
    """The data does not keep the contract. `issues` are all of them, in document order."""

    def __init__(self, issues: Iterable[SftIssue], source: str | None = None) -> None:
        self.issues: tuple[SftIssue, ...] = tuple(issues)
        self.source = source
        """The file that was read; None for rows."""
        super().__init__(self.issues, source)

    def __str__(self) -> str:
        count = len(self.issues)
        head = f"{self.source}: " if self.source else ""
        head += f"{count} issue{'' if count == 1 else 's'}, so no dataset was made"
        lines = [head, *(f"  {issue.describe()}" for issue in self.issues[:SHOWN_ISSUES])]
        if count > SHOWN_ISSUES:
            lines.append(f"  … and {count - SHOWN_ISSUES} more")
        return "\n".join(lines)
