"""A chat template as supervised finetuning reads it: rows in its own terms, texts, token ids.

Everything is rendered and encoded as the gateway does it for a request, so that a trained turn
stands behind the prompt that the model gets when it is asked for that turn.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from copy import copy
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from castform.errors import UsageError
from castform.token_marks import TokenMarks
from castform_trainer.engines.vllm_folder import read_end_ids
from castform_trainer.gateway.call_form import CallForm, find_call_form
from castform_trainer.gateway.marks import make_marks
from castform_trainer.gateway.messages import Message, normalize_messages
from castform_trainer.gateway.template import (
    find_controls,
    list_end_texts,
    names_tools,
    render_text,
    template_source,
)
from castform_trainer.gateway.thinking_form import move_thinking, reads_reasoning
from castform_trainer.gateway.tokens import ChatTokenizer, TextCodec
from castform_trainer.learning.canary import make_canary_ids
from castform_trainer.models import ModelFolder, load_tokenizer
from castform_trainer.sft.pinned_clock import pin_clock, reads_clock
from castform_trainer.sft.probing import TurnEnds, find_turn_ends, splits_after

CONTROL_LIKE = re.compile(r"<[|｜/]?[^<>\s]+>|\[/?[A-Z_]+\]")
"""How control tokens are spelled, whether or not a tokenizer has them."""
ANCHORS = ("\n", ".", "x", "0")


class TurnTemplate:
    """The chat template of one model, and what was found out about it. Used from one thread."""

    def __init__(
        self,
        tokenizer: ChatTokenizer,
        *,
        name: str,
        end_ids: Sequence[int] = (),
        options: Mapping[str, Any] | None = None,
        now: datetime | None = None,
    ) -> None:
        """`end_ids` end a reply when the model samples them (else the tokenizer's own end token);
        `options` are template arguments.

        `now` is the moment that a template gets which asks for the date; without one each
        rendering has the clock's.
        """
        self.name = name
        self.source = template_source(tokenizer)
        self.reads_clock = reads_clock(self.source)
        if now is not None and self.reads_clock:
            tokenizer = copy(tokenizer)
            tokenizer.chat_template = pin_clock(tokenizer.chat_template, now)
        end_texts = list_end_texts(tokenizer, end_ids)
        self.codec = TextCodec(tokenizer, controls=find_controls(tokenizer, end_ids), cached_texts=0)
        ends = [text for text in end_texts if self.codec.find_control_texts(text) == [text]]
        self._tokenizer = tokenizer
        self.canary_ids = tuple(make_canary_ids(tokenizer))
        self._options = dict(options or {})
        self.knows_tools = names_tools(self.source)
        self.ends: TurnEnds = find_turn_ends(self.render, self.codec, end_texts=ends)
        self.call_form: CallForm | None = (
            find_call_form(self.render) if self.knows_tools else CallForm(parsed=True)
        )
        self.reads_reasoning = reads_reasoning(self.render)
        self._splits = splits_after(self.codec, self.ends.texts)
        self._prefixes = self.codec.encode("\na") != self.codec.encode("\n") + self.codec.encode("a")

    @cached_property
    def marks(self) -> TokenMarks:
        """What the token ids of this tokenizer and template are told by."""
        return make_marks(self._tokenizer, self.source, model_name=self.name)

    def render(self, messages: Sequence[Message], tools: Sequence[Message] = (), *, open_reply: bool) -> str:
        """Return the text of prepared messages. Raises whatever the template raises."""
        return render_text(
            self._tokenizer,
            [dict(message) for message in messages],
            list(tools),
            self._options,
            open_reply=open_reply,
            knows_tools=self.knows_tools,
        )

    def prepare(self, row: Mapping[str, Any]) -> tuple[list[Message], list[Message]]:
        """Return (messages, tools) of a row in the form that this template reads, control texts guarded.

        Null content becomes what the template shows as nothing; thinking in front of the content
        goes where the template looks for it. Raises ApiError for a message that is no message.
        """
        form = self.call_form or CallForm(parsed=True)
        messages = normalize_messages(row["messages"])
        if self.reads_reasoning:
            messages = [move_thinking(message) for message in messages]
        messages = [form.apply(message) for message in messages]
        tools = [dict(tool) for tool in row.get("tools") or ()]
        return self.codec.guard(messages), self.codec.guard(tools)

    def encode(self, text: str, known: dict[str, tuple[int, ...]]) -> tuple[int, ...]:
        """Return the ids of rendered text, those of a prompt that a server is sent.

        `known` keeps pieces between turn ends: the prompts of one row share nearly all of them.
        """
        if not self._splits:
            return self.codec.encode(text)
        ids: list[int] = []
        for piece in self._cut_after_ends(text):
            if piece not in known:
                known[piece] = self.codec.encode(piece)
            ids += known[piece]
        return tuple(ids)

    def encode_reply(self, prompt: str, reply: str) -> tuple[int, ...]:
        """Return the ids of a reply, which the model starts anew behind the prompt's last token.

        Some tokenizers put a space in front of every text; the model would not write that one.
        """
        if not self._prefixes:
            return self.codec.encode(reply)
        ends = [text for text in self.codec.find_control_texts(prompt) if prompt.endswith(text)]
        for anchor in (*ends, *ANCHORS):
            before, both = self.codec.encode(anchor), self.codec.encode(anchor + reply)
            if both[: len(before)] == before:
                return both[len(before) :]
        return self.codec.encode(reply)

    def _cut_after_ends(self, text: str) -> list[str]:
        pieces, start = [], 0
        for end in self.ends.pattern.finditer(text):
            pieces.append(text[start : end.end()])
            start = end.end()
        return [*pieces, text[start:]] if start < len(text) else pieces


def load_turn_template(
    folder: ModelFolder | Path,
    *,
    options: Mapping[str, Any] | None = None,
    now: datetime | None = None,
) -> TurnTemplate:
    """Load the template and tokenizer of a model folder. UsageError when they are damaged or do not fit."""
    path = folder.path if isinstance(folder, ModelFolder) else folder
    tokenizer = load_tokenizer(folder)
    template = TurnTemplate(tokenizer, name=folder.name, end_ids=read_end_ids(path), options=options, now=now)
    if CONTROL_LIKE.fullmatch(template.ends.plain.strip()):
        raise UsageError(
            f"the chat template of {folder.name} ends a turn with {template.ends.plain.strip()}, which is "
            "ordinary text to its tokenizer, so the model would never learn to stop",
            hint="use the template and the tokenizer of one model",
        )
    return template
