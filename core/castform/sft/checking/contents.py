"""Who speaks in a dataset, what is trained of it, and which tools are defined and called."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmax.sft import SftDataset

ROLES = ("system", "user", "assistant", "tool")


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolUse:
    """One function name, over all rows."""

    name: str
    defined_rows: int
    """Rows that define it."""
    called_rows: int
    """Rows that call it."""
    calls: int
    trained_calls: int
    """Calls in assistant messages of weight 1."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Contents:
    """Counts of a dataset; nothing here needs a model."""

    rows: int
    roles: Mapping[str, int]
    """Messages of each role, in the order of ROLES; 0 too."""
    turns: Sequence[int]
    """Assistant messages of a row: how many rows have 1, 2, … of them, from index 0."""
    trained_messages: int
    """Assistant messages of weight 1."""
    context_messages: int
    """Assistant messages of weight 0."""
    tools: Sequence[ToolUse]
    """By calls, the most called first."""
    rows_with_tools: int
    rows_with_calls: int

    @property
    def weight_zero_share(self) -> float:
        """Share of the assistant messages that have weight 0."""
        return self.context_messages / (self.trained_messages + self.context_messages)

    @property
    def never_called(self) -> list[str]:
        """Names that rows define and no row calls."""
        return [tool.name for tool in self.tools if not tool.calls]

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "rows": self.rows,
            "roles": dict(self.roles),
            "rows_by_assistant_messages": {str(n): rows for n, rows in enumerate(self.turns) if rows},
            "trained_messages": self.trained_messages,
            "weight_zero_messages": self.context_messages,
            "weight_zero_share": self.weight_zero_share,
            "rows_with_tools": self.rows_with_tools,
            "rows_with_calls": self.rows_with_calls,
            "tools": [asdict(tool) for tool in self.tools],
            "tools_never_called": self.never_called,
        }


def count_contents(dataset: SftDataset) -> Contents:
    """Count what is in the rows, decoding one at a time."""
    roles = Counter(dict.fromkeys(ROLES, 0))
    turns: Counter[int] = Counter()
    defined: Counter[str] = Counter()
    called: Counter[str] = Counter()
    calls: Counter[str] = Counter()
    trained_calls: Counter[str] = Counter()
    trained = context = with_tools = with_calls = 0
    for row in dataset:
        names = [tool["function"]["name"] for tool in row.get("tools", ())]
        defined.update(names)
        with_tools += bool(names)
        here: set[str] = set()
        answers = 0
        for message in row["messages"]:
            roles[message["role"]] += 1
            if message["role"] != "assistant":
                continue
            answers += 1
            weight = message.get("weight", 1)
            trained += weight
            context += 1 - weight
            found = [call["function"]["name"] for call in message.get("tool_calls", ())]
            calls.update(found)
            here.update(found)
            if weight:
                trained_calls.update(found)
        called.update(here)
        with_calls += bool(here)
        turns[answers] += 1
    order = sorted({**defined, **calls}, key=lambda name: (-calls[name], name))
    return Contents(
        rows=len(dataset),
        roles=dict(roles),
        turns=tuple(turns[n] for n in range(max(turns) + 1)),
        trained_messages=trained,
        context_messages=context,
        tools=tuple(
            ToolUse(
                name=name,
                defined_rows=defined[name],
                called_rows=called[name],
                calls=calls[name],
                trained_calls=trained_calls[name],
            )
            for name in order
        ),
        rows_with_tools=with_tools,
        rows_with_calls=with_calls,
    )
