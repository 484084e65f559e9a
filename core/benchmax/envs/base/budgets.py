"""Check the two budgets of a BaseEnv."""

from __future__ import annotations


def check_max_turns(max_turns: int | None) -> int | None:
    """Return the limit when it is None or a positive integer. ValueError otherwise."""
    return _check_count("max_turns", max_turns, least=1)


def check_max_tool_calls(max_tool_calls: int | None) -> int | None:
    """Return the limit when it is None or an integer from 0. ValueError otherwise."""
    return _check_count("max_tool_calls", max_tool_calls, least=0)


def _check_count(name: str, value: int | None, *, least: int) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        kind = "positive" if least else "non-negative"
        raise ValueError(f"{name} must be a {kind} integer, not {value!r}")
    return value
