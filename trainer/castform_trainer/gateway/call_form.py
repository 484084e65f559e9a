"""In which form a chat template wants tool calls, found out by rendering some, and messages put in it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Protocol

from castform_trainer.gateway.messages import Message
from castform_trainer.gateway.replies import make_call_id

WORD, OTHER_WORD = "Qz7probe7zQ", "Qz7other7zQ"
"""Words that no template holds."""
KEY, VALUE = "qz7key7zq", "qz7 value 7zq"
USER: Message = {"role": "user", "content": "x"}
PROBE_CALL_ID = "probe0000"  # nine characters: Mistral's template accepts no other length
SHORT_CALL_ID = re.compile(r"[A-Za-z0-9]{9}")
TOOL: Message = {
    "type": "function",
    "function": {
        "name": WORD,
        "description": "x",
        "parameters": {"type": "object", "properties": {KEY: {"type": "string", "description": "x"}}},
    },
}


class Render(Protocol):
    """Messages and tools to text; raises whatever the template raises."""

    def __call__(
        self, messages: Sequence[Message], tools: Sequence[Message] = (), *, open_reply: bool
    ) -> str: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class CallForm:
    """In which form tool calls are shown to a template."""

    parsed: bool
    """Arguments as an object; otherwise as JSON text."""
    null_content: bool = False
    """Content that says nothing is null; otherwise an empty text."""
    short_ids: bool = False
    """Call ids must have nine letters and digits."""
    drops_calls: bool = False
    """Of several calls in a turn not all are shown."""

    def apply(self, message: Message) -> Message:
        """Return a message in normal form as the template wants it; only calls and results change."""
        if message["role"] == "tool":
            return {**message, "tool_call_id": self._shorten(message["tool_call_id"])}
        if not message.get("tool_calls"):
            return message
        calls = [
            {
                **call,
                "id": self._shorten(call["id"]),
                "function": {**call["function"], "arguments": self._write(call["function"]["arguments"])},
            }
            for call in message["tool_calls"]
        ]
        is_null = self.null_content and not message["content"]
        return {**message, "content": None if is_null else message["content"], "tool_calls": calls}

    def _write(self, arguments: Any) -> Any:
        """Return arguments as text where that is wanted; text that is no object stays as it is."""
        if self.parsed or isinstance(arguments, str):
            return arguments
        return json.dumps(arguments, ensure_ascii=False)

    def _shorten(self, call_id: str) -> str:
        if not self.short_ids or SHORT_CALL_ID.fullmatch(call_id):
            return call_id
        return make_call_id(call_id, 0)


def find_call_form(render: Render) -> CallForm | None:
    """Return the first form in which a call reads back from what the template writes; None if none does."""
    for short, parsed, null in product((False, True), (True, False), (False, True)):
        form = CallForm(parsed=parsed, null_content=null, short_ids=short)
        if _shows_calls(render, form, (WORD,)):
            return replace(form, drops_calls=_shows_calls(render, form, (WORD, OTHER_WORD)) is False)
    return None


def try_render(
    render: Render, messages: Sequence[Message], tools: Sequence[Message] = (), *, open_reply: bool = False
) -> str | None:
    """Return the rendered text of a probe; None when the template refuses it."""
    try:
        return render(messages, tools, open_reply=open_reply)
    except Exception:  # noqa: BLE001 - a template is the model author's program: it may refuse a probe
        return None


def _shows_calls(render: Render, form: CallForm, names: Sequence[str]) -> bool | None:
    """Tell whether a turn's calls, one for each name, read back; None when the template refuses the turn."""
    ids = [
        f"{PROBE_CALL_ID[:-1]}{place}" if form.short_ids else f"call_{place}" for place in range(len(names))
    ]
    calls = [
        {"id": call_id, "type": "function", "function": {"name": name, "arguments": {KEY: VALUE}}}
        for call_id, name in zip(ids, names, strict=True)
    ]
    turn = form.apply({"role": "assistant", "content": "", "tool_calls": calls})
    results: list[Message] = [{"role": "tool", "tool_call_id": call_id, "content": "y"} for call_id in ids]
    for messages in ([USER, turn], [USER, turn, *results]):
        text = try_render(render, messages, [TOOL])
        if text is None:
            continue
        before = try_render(render, [USER], [TOOL], open_reply=True) or ""
        written = text[len(before) :] if text.startswith(before) else text
        quoted = (f"'{KEY}'", f'\\"{KEY}\\"', "None")
        return all(word in written for word in (*names, KEY, VALUE)) and not any(q in written for q in quoted)
    return None
