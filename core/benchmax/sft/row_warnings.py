"""What the format allows and a person would rather know: warnings, which never refuse a dataset."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from benchmax.sft.dataset import SftDataset
from benchmax.sft.issues import Fault, SftIssue
from benchmax.sft.schemas import argument_misfits, schema_misfits
from benchmax.sft.wording import shown

MAX_EXAMPLES = 20
USUAL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")

WARNING_CODES: dict[str, str] = {
    "no_user_message": "the row has no user message, so the model answers nothing",
    "ends_without_assistant": "messages follow the last assistant message; nothing is learnt from them",
    "system_not_first": "a system message stands after other messages; many chat templates refuse it",
    "content_blank": "the content is space only",
    "function_name_unusual": "a function's name is not 1 to 64 of A-Z, a-z, 0-9, _ and -; model servers refuse it",
    "parameters_not_schema": "the parameters of a tool make no sense as a JSON Schema",
    "arguments_off_schema": "the arguments of a call do not fit the parameters that the tool declares",
    "duplicate_row": "the row equals an earlier one, so it counts twice",
}
"""Every code that a warning can have, in the order in which `warnings_of` gives them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SftWarning:
    """All warnings of one code."""

    code: str
    count: int
    """How many there are, in all rows together."""
    examples: tuple[SftIssue, ...]
    """The first of them, at most MAX_EXAMPLES."""


def warnings_of(dataset: SftDataset) -> tuple[SftWarning, ...]:
    """Return the warnings of a dataset, one entry for each code that occurs.

    Decodes one row at a time; what is kept are the examples and 16 bytes for each row, by which
    equal rows are found.
    """
    counts = dict.fromkeys(WARNING_CODES, 0)
    examples: dict[str, list[SftIssue]] = {code: [] for code in WARNING_CODES}
    first_rows: dict[bytes, int] = {}
    for index, line in enumerate(dataset.iterate_jsonl_bytes()):
        found = list(row_warnings(json.loads(line)))
        first = first_rows.setdefault(hashlib.blake2b(line, digest_size=16).digest(), index)
        if first != index:
            found.append(Fault("duplicate_row", "$", f"the same as row {first}"))
        for code, location, message in found:
            counts[code] += 1
            if len(examples[code]) < MAX_EXAMPLES:
                examples[code].append(SftIssue(message, location, dataset.line_of(index), index, code))
    return tuple(
        SftWarning(code=code, count=count, examples=tuple(examples[code]))
        for code, count in counts.items()
        if count
    )


def row_warnings(row: dict[str, Any]) -> Iterator[Fault]:
    """Yield the warnings of one valid row, duplicates aside."""
    messages = row["messages"]
    roles = [message["role"] for message in messages]
    if "user" not in roles:
        yield Fault("no_user_message", "$.messages", WARNING_CODES["no_user_message"])
    if roles[-1] != "assistant":
        text = f"the row ends with a {roles[-1]} message; what follows the last assistant message teaches nothing"
        yield Fault("ends_without_assistant", f"$.messages[{len(roles) - 1}]", text)
    for index, message in enumerate(messages):
        location = f"$.messages[{index}]"
        if message["role"] == "system" and any(role != "system" for role in roles[:index]):
            yield Fault("system_not_first", location, f"a system message after a {roles[index - 1]} message")
        content = message.get("content")
        if message["role"] != "tool" and content and content.isspace():
            yield Fault(
                "content_blank", f"{location}.content", f"the content is space only, {shown(content)}"
            )
    yield from _tool_warnings(row)


def _tool_warnings(row: dict[str, Any]) -> Iterator[Fault]:
    parameters: dict[str, Any] = {}
    for index, tool in enumerate(row.get("tools", ())):
        function, location = tool["function"], f"$.tools[{index}].function"
        parameters[function["name"]] = function["parameters"]
        if not USUAL_NAME.fullmatch(function["name"]):
            text = f"{shown(function['name'])} is not 1 to 64 of A-Z, a-z, 0-9, _ and -"
            yield Fault("function_name_unusual", f"{location}.name", text)
        for place, message in schema_misfits(function["parameters"], f"{location}.parameters"):
            yield Fault("parameters_not_schema", place, message)
    for index, message in enumerate(row["messages"]):
        for number, call in enumerate(message.get("tool_calls", ())):
            function = call["function"]
            location = f"$.messages[{index}].tool_calls[{number}].function.arguments"
            schema = parameters[function["name"]]
            for place, text in argument_misfits(json.loads(function["arguments"]), schema, location):
                yield Fault("arguments_off_schema", place, f"{shown(function['name'])}: {text}")
