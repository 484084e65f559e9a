"""Three components: the right number, the tags around it, and whether it was looked up."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from benchmax.rewards import read_tagged_answer
from castform_env_lookup.questions import Cell
from castform_env_lookup.table import find_name

_NUMBER = re.compile(r"-?\d{1,3}(,\d{3})+|-?\d{1,12}")


def format_reward(text: str) -> float:
    """Return 1 for one pair of tags with a whole number in it, 0.5 with something else in it, else 0."""
    answer = read_tagged_answer(text)
    if answer is None:
        return 0.0
    return 1.0 if _NUMBER.fullmatch(answer) else 0.5


def correct_reward(text: str, truth: int) -> float:
    """Return 1 when exactly the right whole number stands between the tags, else 0."""
    answer = read_tagged_answer(text)
    if answer is None or not _NUMBER.fullmatch(answer):
        return 0.0
    return 1.0 if int(answer.replace(",", "")) == truth else 0.0


def used_tool_reward(messages: Iterable[Mapping[str, Any]], cells: Sequence[Cell]) -> float:
    """Return the share of the needed cells that were looked up with `get`; other calls count for nothing."""
    looked_up = {cell for message in messages for cell in _cells_of(message)}
    return sum(cell in looked_up for cell in cells) / len(cells)


def _cells_of(message: Mapping[str, Any]) -> list[Cell]:
    if message.get("role") != "assistant":
        return []
    cells = []
    for call in message.get("tool_calls") or ():
        function = call.get("function") or {}
        if function.get("name") != "get":
            continue
        try:
            arguments = json.loads(function.get("arguments") or "{}")
        except ValueError:
            continue
        if isinstance(arguments, dict):
            name = find_name(str(arguments.get("place", "")))
            if name is not None:
                cells.append((name, str(arguments.get("column", ""))))
    return cells
