"""One attempt of a BaseEnv: the transcript and the example's other fields."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmax.envs.shared_types import DatasetSplit, Message, Messages, RolloutAttempt

PROMPT_FIELD = "prompt_messages"


@dataclass(frozen=True, kw_only=True)
class BaseRollout(RolloutAttempt):
    """What reward functions get to see."""

    messages: Messages = field(default_factory=list)
    """The whole transcript: the prompt, what the model said, what the tools answered."""
    example_args: dict[str, Any] = field(default_factory=dict)
    """The payload without its prompt. A copy of this rollout's own."""
    split: DatasetSplit = "train"


def read_payload(payload: object) -> tuple[Messages, dict[str, Any]]:
    """Return (prompt messages, other fields) of a payload, copied all the way down.

    TypeError: not a mapping, or the prompt is not a list of mappings. ValueError: no
    prompt, an empty one, or a message without a role.
    """
    if not isinstance(payload, Mapping):
        raise TypeError(f"the payload of a BaseEnv example must be a mapping, not {type(payload).__name__}")
    if PROMPT_FIELD not in payload:
        raise ValueError(f"the payload has no {PROMPT_FIELD!r}")
    prompt = payload[PROMPT_FIELD]
    if not isinstance(prompt, (list, tuple)):
        raise TypeError(f"{PROMPT_FIELD} must be a list of messages, not {type(prompt).__name__}")
    if not prompt:
        raise ValueError(f"{PROMPT_FIELD} must have at least one message")
    messages = [_copied_message(f"{PROMPT_FIELD}[{index}]", message) for index, message in enumerate(prompt)]
    example_args = {key: own_copy(value) for key, value in payload.items() if key != PROMPT_FIELD}
    return messages, example_args


def read_messages(messages: object) -> Messages:
    """Return copies of what an environment says between two replies of the model.

    TypeError: not a list of mappings. ValueError: a message without a role, or one in the model's name.
    """
    if not isinstance(messages, (list, tuple)):
        raise TypeError(f"it must return a list of messages or None, not {type(messages).__name__}")
    copied = [_copied_message(f"its message {place}", message) for place, message in enumerate(messages)]
    if any(message["role"] == "assistant" for message in copied):
        raise ValueError("it may not speak for the model: a message has the role assistant")
    return copied


def own_copy(value: Any) -> Any:  # Any: whatever a payload holds
    """Return a copy that shares nothing with the original; for JSON several times faster than deepcopy."""
    if value is None or isinstance(value, (str, int, float)):
        return value
    if type(value) is dict:
        return {key: own_copy(item) for key, item in value.items()}
    if type(value) is list:
        return [own_copy(item) for item in value]
    return copy.deepcopy(value)


def _copied_message(what: str, message: object) -> Message:
    if not isinstance(message, Mapping):
        raise TypeError(f"{what} must be a mapping, not {type(message).__name__}")
    if not isinstance(message.get("role"), str):
        raise ValueError(f"{what} must have a text role")
    return {key: own_copy(value) for key, value in message.items()}
