"""Everything that is wrong with one row, in the order that the format fixes."""

from __future__ import annotations

import re

from benchmax.sft.canonical import canonical_bytes, canonical_text, row_text
from benchmax.sft.clean import KnownTools, is_clean
from benchmax.sft.issues import Fault
from benchmax.sft.keys import key_faults
from benchmax.sft.limits import MAX_LINE_BYTES, MAX_METADATA_BYTES, MAX_ROW_BYTES
from benchmax.sft.lines import Line
from benchmax.sft.messages import LOCATION, is_trained, makes_call, messages_faults
from benchmax.sft.metadata import metadata_faults
from benchmax.sft.parsing import UnreadableError, has_no_key_twice, parse_leniently
from benchmax.sft.tools import function_names, tools_faults
from benchmax.sft.tree import is_over_budget, tree_faults
from benchmax.sft.wording import shown

IN_METADATA = re.compile(r"\$\.metadata(?![A-Za-z0-9_-])")
ROW_KEYS = ("messages", "tools", "metadata")


def check_row(row: object) -> tuple[bytes, list[Fault]]:
    """Return the canonical bytes of a row and no fault, or no bytes and its faults.

    A row that is certainly sound takes a short way; for any other, and for what the short way
    does not understand, every fault is looked for.
    """
    if is_clean(row):
        data = _bytes_within_limits(row, canonical_text(row))
        if data is not None:
            return data, []
    faults = row_faults(row)
    if faults:
        return b"", faults
    data = canonical_bytes(row)
    if len(data) > MAX_ROW_BYTES:
        text = (
            f"the row has {len(data):,} canonical bytes; at most {MAX_ROW_BYTES:,} are allowed, so split it"
        )
        return b"", [Fault("row_too_large", "$", text)]
    return data, []


def canonical_line(line: Line, known: KnownTools) -> bytes | None:
    """Return the canonical bytes of a line whose row is certainly sound; None for any other line."""
    if line.size > MAX_LINE_BYTES:
        return None
    try:
        row = parse_leniently(line.data.decode())
    except (ValueError, RecursionError, UnreadableError):
        return None
    if not is_clean(row, known):
        return None
    data = _bytes_within_limits(row, row_text(row, known.text))
    return data if data is not None and has_no_key_twice(line.data, data) else None


def _bytes_within_limits(row: object, text: str) -> bytes | None:
    try:
        data = text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        return None
    if len(data) > MAX_ROW_BYTES:
        return None
    if len(data) > MAX_METADATA_BYTES and isinstance(row, dict) and "metadata" in row:
        return data if len(canonical_bytes(row["metadata"])) <= MAX_METADATA_BYTES else None
    return data


def row_faults(row: object) -> list[Fault]:
    """Return what is wrong with a row apart from its size, which only a row without faults has."""
    faults = tree_faults(row)
    if is_over_budget(faults):
        return faults
    if not isinstance(row, dict) or type(row) is not dict:
        hint = "; `castform sft convert` reads a file that is one array of rows" if type(row) is list else ""
        return [*faults, Fault("row_not_object", "$", f"a row is an object, not {shown(row)}{hint}")]
    is_json = not any(IN_METADATA.match(fault.location) for fault in faults)
    faults += key_faults(row, ROW_KEYS, "$", what="a row")
    tools, messages = row.get("tools"), row.get("messages")
    if "tools" in row:
        faults += tools_faults(tools)
    faults += messages_faults(row, function_names(tools))
    turns = messages if isinstance(messages, list) and type(messages) is list else []
    no_tools = "tools" not in row or (type(tools) is list and not tools)
    if no_tools and any(makes_call(message) for message in turns):
        faults.append(
            Fault("tools_required", "$.tools", "a message calls a tool, so the row defines its tools")
        )
    if "metadata" in row:
        faults += metadata_faults(row["metadata"], is_json=is_json)
    if turns and not any(is_trained(message) for message in turns):
        text = "nothing to train on: no assistant message has weight 1 and content or a tool call"
        faults.append(Fault("nothing_to_train", LOCATION, text))
    return faults
