"""A stored rollout as readable text: what was said, called and paid."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from castform.cli.output import print_fields, print_text
from castform.safe_text import safe_line, safe_text

if TYPE_CHECKING:
    from castform.fidelity import CallFidelity
    from castform.runs import RolloutRecord


def print_rollout(
    rollout: RolloutRecord, *, environment: str | None = None, fidelity: CallFidelity | None = None
) -> None:
    """Write the rewards, then the conversation. Nothing in it can steer the terminal."""
    fields: dict[str, object] = {
        "rollout": safe_line(rollout.rollout_id),
        "example": safe_line(rollout.example_id),
        "mode": f"{rollout.mode}, step {rollout.step}, sample {rollout.sample}",
        "score": "not scored" if rollout.score is None else f"{rollout.score:g}",
        **{f"  {safe_line(name)}": f"{value:g}" for name, value in rollout.rewards.items()},
        "ended": safe_line(rollout.termination_reason),
    }
    if rollout.error is not None:
        fields["error"] = safe_line(rollout.error)
    if rollout.disposition is not None:
        fields["training"] = rollout.disposition
    tokens = [
        f"{count} {what}"
        for count, what in (
            (rollout.turns, "calls"),
            (rollout.prompt_tokens, "prompt tokens"),
            (rollout.completion_tokens, "reply tokens"),
        )
        if count is not None
    ]
    if environment is not None:
        fields["environment"] = safe_line(environment)
    fields["length"] = f"{', '.join(tokens)}, {rollout.seconds:.2f} s"
    if fidelity is not None:
        fields["recorded"] = fidelity.describe()
    print_fields(fields)
    print_messages(rollout.messages)


def print_messages(messages: Sequence[Mapping[str, Any]], *, most_characters: int | None = None) -> None:
    """Write a conversation; a text longer than `most_characters` is cut, with its length."""
    for message in messages:
        print_text()
        print_text(f"[{safe_line(str(message.get('role', '?')))}]")
        for line in _lines(message):
            if most_characters is not None and len(line) > most_characters:
                line = f"{line[:most_characters]}… ({len(line):,} characters)"
            print_text(line)


def _lines(message: Mapping[str, Any]) -> Sequence[str]:
    lines: list[str] = []
    if message.get("reasoning_content"):
        lines.append(f"(thinks) {safe_text(str(message['reasoning_content']))}")
    content = message.get("content")
    if content:
        lines.append(safe_text(content if isinstance(content, str) else _parts(content)))
    for call in message.get("tool_calls") or ():
        function = call.get("function") or {}
        lines.append(
            f"-> {safe_line(str(function.get('name', '?')))}({safe_line(str(function.get('arguments', '')))})"
        )
    return lines or ["(nothing)"]


def _parts(content: Any) -> str:
    """Return content parts as text; what is not text is named, not shown."""
    if not isinstance(content, (list, tuple)):
        return json.dumps(content)
    return "\n".join(
        str(part.get("text", f"<{part.get('type', 'part')}>")) if isinstance(part, Mapping) else str(part)
        for part in content
    )
