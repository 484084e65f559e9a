"""What the templates here mean, written once more in plain Python: the oracle for the masks.

It shares no code with the masks and renders no jinja. `expect(name, row)` gives the prompt and the
reply of every trained turn as texts, or RefusedError where the template cannot show the row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mask_oracle.channels import reply_glm, reply_harmony, write_glm, write_harmony
from mask_oracle.headed import (
    neighbours_body,
    reply_deepseek,
    reply_llama,
    reply_mistral,
    write_deepseek,
    write_llama,
    write_mistral,
    write_neighbours,
)
from mask_oracle.parts import Message, RefusedError, Writer
from mask_oracle.qwen import (
    hermes_body,
    markers_body,
    reply_qwen3,
    write_hermes,
    write_markers,
    write_qwen3,
    write_qwen25,
)
from mask_oracle.spelled import reply_spelled, write_chatml, write_gemma, write_phi, write_smollm2

__all__ = ["RefusedError", "expect"]


def expect(name: str, row: dict[str, Any]) -> list[tuple[int, str, str]]:
    """Return (index of the message, prompt, reply with its end) of each trained turn. Raises RefusedError."""
    write, split = WRITERS[name]
    messages, tools = row["messages"], row.get("tools") or []
    found = []
    for place, message in enumerate(messages):
        if message["role"] == "assistant" and message.get("weight", 1):
            prompt = write(messages[:place], tools, True)
            found.append((place, prompt, split(messages[: place + 1], tools)))
    return found


def _own(body: Callable[[Message], str], end: str) -> Callable[[list[Message], list[Any]], str]:
    return lambda messages, tools: body(messages[-1]) + end


WRITERS: dict[str, tuple[Writer, Callable[[list[Message], list[Any]], str]]] = {
    "chatml": (write_chatml, reply_spelled("<|im_end|>")),
    "smollm2": (write_smollm2, reply_spelled("<|im_end|>")),
    "qwen25": (write_qwen25, reply_spelled("<|im_end|>")),
    "qwen3": (write_qwen3, reply_qwen3),
    "qwen_markers": (write_markers, _own(markers_body, "<|im_end|>")),
    "llama3": (write_llama, reply_llama),
    "mistral": (write_mistral, reply_mistral),
    "gemma": (write_gemma, reply_spelled("<end_of_turn>", trim=True)),
    "phi35": (write_phi, reply_spelled("<|end|>")),
    "hermes": (write_hermes, _own(hermes_body, "<|im_end|>")),
    "deepseek": (write_deepseek, reply_deepseek),
    "glm": (write_glm, reply_glm),
    "harmony": (write_harmony, reply_harmony),
    "neighbours": (write_neighbours, _own(neighbours_body, "<|end|>")),
}
