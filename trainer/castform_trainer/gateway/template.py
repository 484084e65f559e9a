"""Render conversations with the model's own chat template, and probe what it puts around a turn."""

from __future__ import annotations

import json
import re
import secrets
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from castform_trainer.gateway.call_form import PROBE_CALL_ID, CallForm, find_call_form
from castform_trainer.gateway.errors import ApiError
from castform_trainer.gateway.messages import Message
from castform_trainer.gateway.parsers.think import CLOSE, OPEN
from castform_trainer.gateway.thinking_form import has_thinking, move_thinking, reads_reasoning
from castform_trainer.gateway.tokens import ChatTokenizer, TextCodec, list_added_tokens
from castform_trainer.gateway.tool_order import order_tools
from castform_trainer.gateway.tools_block import write_tools_as_text

CACHED_RENDERINGS = 1024


class TemplateRenderer:
    """The chat template of one model, with a cache. Used from one thread."""

    def __init__(self, tokenizer: ChatTokenizer, codec: TextCodec, model_name: str) -> None:
        self.source = template_source(tokenizer)
        self.knows_tools = names_tools(self.source)
        self._tokenizer = tokenizer
        self._codec = codec
        self._model_name = model_name
        self._sentinel = f"Qz{secrets.token_hex(8)}zQ"
        self._cache: OrderedDict[tuple[Any, ...], str] = OrderedDict()
        self._ends: dict[bool, tuple[str, str] | None] = {}

    def render(
        self,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]] = (),
        options: Mapping[str, Any] | None = None,
        *,
        open_reply: bool = True,
    ) -> str:
        """Return the prompt text, with control tokens inside messages guarded.

        ApiError 400 `chat_template_error` when the template raises.
        """
        try:
            return self._render(messages, tools, options or {}, open_reply)
        except Exception as error:  # a template is the model author's program
            raise ApiError(
                400,
                "chat_template_error",
                f"the chat template of {self._model_name} refused these messages: {error}",
                param="messages",
            ) from error

    def find_suffix(
        self,
        messages: Sequence[Message],
        place: int,
        tools: Sequence[Mapping[str, Any]],
        options: Mapping[str, Any],
    ) -> str | None:
        """Return the text that follows the reply at messages[place]: its closer and all later turns.

        The reply is rendered once more with a sentinel in it, in the same conversation, so the
        answer does not depend on what the reply says. None when the template hides the place.
        """
        reply = messages[place]
        with_calls = bool(reply.get("tool_calls"))
        ends = self._probe_ends(True) if with_calls else ("", "")
        if ends is None:
            return None
        probe = [*messages[:place], self._make_probe(reply), *messages[place + 1 :]]
        try:
            text = self._render(probe, tools, options, True)
        except Exception:  # noqa: BLE001 - a template that rejects the probe is simply not spliced
            return None
        _, found, after = text.rpartition(self._sentinel)
        call_end, closer = ends
        if not found or not after.startswith(call_end + closer):
            return None
        return after[len(call_end) :]

    def shows_reply(self, shown: str, reply: Message) -> bool:
        """Tell whether the rendered form of a reply still holds all that the reply said."""
        parts = [reply["content"], reply.get("reasoning_content", "")]
        parts += [call["function"]["name"] for call in reply.get("tool_calls", ())]
        return all(self._codec.guard(part).strip() in shown for part in parts)

    def get_closer(self) -> str:
        """Return what the template writes after a reply's content, for example `<|im_end|>\\n`."""
        ends = self._probe_ends(False)
        return ends[1] if ends else ""

    def _probe_ends(self, with_calls: bool) -> tuple[str, str] | None:
        """Return (text between the last argument and the closer, closer) of a reply; None if unknown."""
        if with_calls not in self._ends:
            self._ends[with_calls] = self._probe_ends_once(with_calls)
        return self._ends[with_calls]

    def _probe_ends_once(self, with_calls: bool) -> tuple[str, str] | None:
        reply: Message = {"role": "assistant", "content": self._sentinel}
        if with_calls:
            call = {"id": PROBE_CALL_ID, "function": {"name": "probe", "arguments": {}}}
            reply = self._make_probe({**reply, "tool_calls": [call]})
        try:
            text = self._render([{"role": "user", "content": "x"}, reply], (), {}, False)
        except Exception:  # noqa: BLE001 - as above
            return None
        _, found, after = text.rpartition(self._sentinel)
        if not found:
            return None
        if not with_calls:
            return "", after
        plain = self._probe_ends(False)
        if plain is None or not plain[1] or not after.endswith(plain[1]):
            return None
        return after[: -len(plain[1])], plain[1]

    def _make_probe(self, reply: Message) -> Message:
        probe = {**reply, "content": self._sentinel}
        if reply.get("tool_calls"):
            arguments = {self._sentinel: self._sentinel}
            probe["tool_calls"] = [
                {
                    "id": call["id"],
                    "type": "function",
                    "function": {"name": call["function"]["name"], "arguments": arguments},
                }
                for call in reply["tool_calls"]
            ]
        return probe

    def _render(
        self,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]],
        options: Mapping[str, Any],
        open_reply: bool,
    ) -> str:
        key = (json.dumps([messages, tools, options], ensure_ascii=False), open_reply)
        known = self._cache.get(key)
        if known is not None:
            self._cache.move_to_end(key)
            return known
        conversation = self._codec.guard(self._shape(messages))
        offered = self._codec.guard([dict(tool) for tool in tools])
        text = self._render_plain(conversation, offered, options, open_reply=open_reply)
        self._cache[key] = text
        if len(self._cache) > CACHED_RENDERINGS:
            self._cache.popitem(last=False)
        return text

    def _shape(self, messages: Sequence[Message]) -> list[Message]:
        """Return messages with calls and thinking in the form that the template wants."""
        shaped = list(messages)
        if any(map(has_thinking, shaped)) and self._reads_reasoning:
            shaped = [move_thinking(message) for message in shaped]
        if any(message.get("tool_calls") for message in shaped):
            shaped = [self._call_form.apply(message) for message in shaped]
        return [dict(message) for message in shaped]

    @cached_property
    def _reads_reasoning(self) -> bool:
        return reads_reasoning(self._render_plain)

    @cached_property
    def _call_form(self) -> CallForm:
        found = find_call_form(self._render_plain) if self.knows_tools else None
        return found or CallForm(parsed=True)

    def _render_plain(
        self,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]] = (),
        options: Mapping[str, Any] | None = None,
        *,
        open_reply: bool,
    ) -> str:
        return render_text(
            self._tokenizer,
            [dict(message) for message in messages],
            [dict(tool) for tool in tools],
            options or {},
            open_reply=open_reply,
            knows_tools=self.knows_tools,
        )


def render_text(
    tokenizer: ChatTokenizer,
    conversation: list[Message],
    tools: list[Message],
    options: Mapping[str, Any],
    *,
    open_reply: bool,
    knows_tools: bool,
) -> str:
    """Return what the chat template writes; `open_reply` ends it where a reply begins.

    A template that knows no tools gets them spelled out in the messages. The keys of tools come
    in one order. Raises whatever the template raises, and TypeError when it gives no text.
    """
    tools = order_tools(tools)
    if not knows_tools:
        conversation, tools = write_tools_as_text(conversation, tools), []
    text = tokenizer.apply_chat_template(
        conversation, tools=tools or None, add_generation_prompt=open_reply, tokenize=False, **options
    )
    if not isinstance(text, str):
        raise TypeError(f"the template gave {type(text).__name__}, not text")
    return text


def names_tools(source: str) -> bool:
    """Tell whether a chat template reads the tools that are offered."""
    return re.search(r"\btools\b", source) is not None


def find_turn_markers(tokenizer: ChatTokenizer) -> set[str]:
    """Return the added tokens that the template writes around plain turns, special or not.

    Some models mark their turns with tokens that are not declared special.
    """
    turns = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]
    try:
        text = tokenizer.apply_chat_template([*turns, turns[0]], tokenize=False, add_generation_prompt=True)
    except Exception:  # noqa: BLE001 - a template that refuses this is met again at the first request
        return set()
    markers = {str(token) for token in list_added_tokens(tokenizer)}
    return {marker for marker in markers if len(marker) > 2 and marker in text} - {OPEN, CLOSE}


def list_end_texts(tokenizer: ChatTokenizer, end_ids: Sequence[int]) -> list[str]:
    """Return the texts of the ids that end a reply; without ids, that of the tokenizer's own end token."""
    texts = [str(tokenizer.decode([i], skip_special_tokens=False)) for i in end_ids]
    own = getattr(tokenizer, "eos_token", None)
    return texts or ([str(own)] if own else [])


def find_controls(tokenizer: ChatTokenizer, end_ids: Sequence[int]) -> set[str]:
    """Return the texts that only the template and the model may write as control tokens.

    Turn markers and what ends a reply: `end_ids` are those of the model. Serving and finetuning
    guard the same ones, special or not.
    """
    return find_turn_markers(tokenizer).union(list_end_texts(tokenizer, end_ids))


def template_source(tokenizer: ChatTokenizer) -> str:
    """Return the text of a tokenizer's chat template(s), empty when it has none."""
    template = tokenizer.chat_template
    if isinstance(template, dict):
        return "\n".join(str(text) for text in template.values())
    return str(template or "")
