"""Thinking that stands in front of a reply's content, put where a chat template looks for it."""

from __future__ import annotations

from castform_trainer.gateway.call_form import USER, WORD, Render, try_render
from castform_trainer.gateway.messages import Message
from castform_trainer.gateway.parsers.think import CLOSE, OPEN, split_reasoning


def reads_reasoning(render: Render) -> bool:
    """Tell whether the template shows thinking that stands beside the content."""
    turn: Message = {"role": "assistant", "content": "y", "reasoning_content": WORD}
    text = try_render(render, [USER, turn])
    return text is not None and WORD in text


def has_thinking(message: Message) -> bool:
    """Tell whether a message in normal form is a reply whose thinking stands in front of its content.

    Behind thinking that stands beside it already, such tags are part of what the reply says.
    """
    if message["role"] != "assistant" or message.get("reasoning_content"):
        return False
    content = message["content"]
    return content.lstrip().startswith(OPEN) and CLOSE in content


def move_thinking(message: Message) -> Message:
    """Return a message with its thinking beside the content; one without any stays as it is."""
    if not has_thinking(message):
        return message
    reasoning, content = split_reasoning(message["content"], opened=False)
    return {**message, "reasoning_content": reasoning, "content": content}
