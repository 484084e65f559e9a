"""Reasoning between think tags, in front of the answer: Qwen3, DeepSeek-R1, SmolLM3 and others."""

from __future__ import annotations

OPEN, CLOSE = "<think>", "</think>"


def knows_thinking(template: str) -> bool:
    """Tell whether a chat template has think tags; for other models the tags are ordinary text."""
    return CLOSE in template or OPEN in template


def split_reasoning(text: str, *, opened: bool) -> tuple[str, str]:
    """Return (reasoning, rest). `opened`: the prompt already ends inside the reasoning.

    A reply that was cut inside its reasoning has no rest.
    """
    inside = text.lstrip()
    if not opened:
        if not inside.startswith(OPEN):
            return "", text
        inside = inside[len(OPEN) :]
    else:
        inside = inside.removeprefix(OPEN)
    reasoning, close, rest = inside.partition(CLOSE)
    return reasoning.strip("\n"), rest.lstrip("\n") if close else ""
