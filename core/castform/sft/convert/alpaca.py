"""Alpaca: `instruction`, `input` and `output`, with `system` and `history` as in LLaMA-Factory.

The question is the instruction and, on a line below it, the input. Answers of the history are trained on
as the last one is, as everywhere.
"""

from __future__ import annotations

from benchmax.sft.wording import shown
from castform.sft.convert.draft import Draft, Place, Row, decoded_list
from castform.sft.convert.messages import read_messages
from castform.sft.convert.notes import RefusedError
from castform.sft.convert.shapes import refuse_other_purposes, refuse_without_turns
from castform.sft.convert.tool_definitions import read_tools

TAKEN = ("instruction", "input", "output", "system", "history", "tools", "functions")


def convert_alpaca(row: Row) -> Draft:
    """Convert a row of `instruction` and `output`. RefusedError."""
    refuse_other_purposes(row)
    if "instruction" not in row:
        refuse_without_turns(row, "instruction and output")
    draft = Draft()
    system, instruction, given, output = (
        _text(row, key, draft) for key in ("system", "instruction", "input", "output")
    )
    if not output:
        raise RefusedError("completion_missing", "$.output", "the output is missing or empty")
    turns: list[tuple[str, str, Place]] = []
    if system:
        turns.append(("system", system, Place("$.system", "$.system")))
    turns += _history(row, draft)
    question = "\n".join(part for part in (instruction, given) if part)
    turns.append(("user", question, Place("$.instruction", "$.instruction")))
    turns.append(("assistant", output, Place("$.output", "$.output")))
    messages = [{"role": role, "content": content} for role, content, _ in turns]
    read_tools(row, draft)
    read_messages(messages, [place for _, _, place in turns], draft, says_ids=False)
    draft.keep_columns(row, TAKEN)
    return draft


def recognise_alpaca(row: Row) -> str | None:
    """Return why a row is of this format; None when it is not."""
    return "`instruction` and `output`" if "instruction" in row and "output" in row else None


def _text(row: Row, key: str, draft: Draft) -> str:
    value = row.get(key)
    if value is None:
        if key in row:
            draft.null(f"$.{key}")
        return ""
    if not isinstance(value, str):
        raise RefusedError("column_type", f"$.{key}", f"{key} is {shown(value)}, not text")
    return value


def _history(row: Row, draft: Draft) -> list[tuple[str, str, Place]]:
    if row.get("history") in (None, ""):
        if "history" in row:
            draft.null("$.history")
        return []
    history = decoded_list(row["history"], "$.history", draft)
    if not isinstance(history, list):
        raise RefusedError(
            "history_invalid", "$.history", f"history is {shown(history)}, not a list of pairs"
        )
    found: list[tuple[str, str, Place]] = []
    for index, pair in enumerate(history):
        place = f"$.history[{index}]"
        if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(each, str) for each in pair):
            text = f"a pair of the history is {shown(pair)}, not a question and an answer as text"
            raise RefusedError("history_invalid", place, text)
        found.append(("user", pair[0], Place(place, f"{place}[0]")))
        found.append(("assistant", pair[1], Place(place, f"{place}[1]")))
    return found
