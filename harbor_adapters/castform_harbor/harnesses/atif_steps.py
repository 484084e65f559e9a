"""Write an agent's run down in ATIF (1.6), and read one back as messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

SCHEMA_VERSION = "ATIF-v1.6"


@dataclass(kw_only=True, slots=True)
class StepLog:
    """Collects the steps of one run."""

    clock: Callable[[], str]
    """The time as ISO 8601."""
    steps: list[dict[str, Any]] = field(default_factory=list)  # Any: ATIF
    prompt_tokens: int = 0
    completion_tokens: int = 0

    def add(self, source: str, message: str, **more: Any) -> None:  # Any: further fields of a step
        """Add a step; fields that are None are left out."""
        kept = {key: value for key, value in more.items() if value is not None}
        self.steps.append(
            {
                "step_id": len(self.steps) + 1,
                "timestamp": self.clock(),
                "source": source,
                "message": message,
                **kept,
            }
        )

    def add_reply(self, message: str, reasoning: str | None, usage: tuple[int, int] | None) -> None:
        """Add what the model said; `usage` is its prompt and completion tokens."""
        metrics = None
        if usage is not None:
            metrics = {"prompt_tokens": usage[0], "completion_tokens": usage[1]}
            self.prompt_tokens += usage[0]
            self.completion_tokens += usage[1]
        self.add("agent", message, reasoning_content=reasoning or None, metrics=metrics)

    def add_commands(self, commands: Sequence[tuple[str, str]]) -> None:
        """Add commands, with what each printed, to the last step."""
        number = self.steps[-1]["step_id"]
        ids = [f"call_{number}_{place}" for place in range(1, len(commands) + 1)]
        self.steps[-1]["tool_calls"] = [
            {"tool_call_id": id, "function_name": "sh", "arguments": {"command": command}}
            for id, (command, _) in zip(ids, commands, strict=True)
        ]
        self.steps[-1]["observation"] = {
            "results": [
                {"source_call_id": id, "content": printed}
                for id, (_, printed) in zip(ids, commands, strict=True)
            ]
        }

    def finish(self, *, session_id: str, agent: Mapping[str, Any]) -> dict[str, Any]:  # Any: ATIF
        """Return the document."""
        return {
            "schema_version": SCHEMA_VERSION,
            "session_id": session_id,
            "agent": dict(agent),
            "steps": list(self.steps),
            "final_metrics": {
                "total_prompt_tokens": self.prompt_tokens,
                "total_completion_tokens": self.completion_tokens,
                "total_steps": len(self.steps),
            },
        }


def make_messages(trajectory: Mapping[str, Any]) -> list[dict[str, Any]]:  # Any: ATIF; chat messages
    """Return the user's and the agent's turns of a document; observations become user turns.

    System steps are left out: the agent that goes on has rules of its own.
    """
    messages: list[dict[str, Any]] = []
    for step in _tables(trajectory.get("steps")):
        source = step.get("source")
        if source not in ("user", "agent"):
            continue
        text = _text(step.get("message"))
        if source == "agent" and "```" not in text:
            calls = [f"```sh\n{command}\n```" for command in _commands(step)]
            text = "\n\n".join(part for part in (text, *calls) if part)
        append_message(messages, "assistant" if source == "agent" else "user", text)
        observation = step.get("observation")
        results = observation.get("results") if isinstance(observation, Mapping) else None
        printed = [_text(result.get("content")) for result in _tables(results)]
        if printed:
            append_message(messages, "user", "\n".join(printed) or "(no output)")
    return messages


def append_message(messages: list[dict[str, Any]], role: str, text: str) -> None:  # Any: chat messages
    """Add a message; what the same one says twice in a row is one message, as chat templates want it."""
    if messages and messages[-1]["role"] == role:
        messages[-1]["content"] += f"\n\n{text}"
    else:
        messages.append({"role": role, "content": text})


def _commands(step: Mapping[str, Any]) -> list[str]:
    arguments = [call.get("arguments") for call in _tables(step.get("tool_calls"))]
    return [str(each["command"]) for each in arguments if isinstance(each, Mapping) and "command" in each]


def _tables(value: object) -> list[Mapping[str, Any]]:
    """Return the tables of a list: a document that somebody else wrote holds anything."""
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _text(content: object) -> str:
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, Mapping))
    return "" if content is None else str(content)
