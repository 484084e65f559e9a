"""Find out how a chat template ends a turn, and in which form it wants calls and thinking.

Each question is answered by rendering a small conversation with words that no template holds.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any, Protocol

from castform_trainer.gateway.messages import Message
from castform_trainer.gateway.template import PROBE_CALL_ID
from castform_trainer.gateway.tokens import TextCodec

WORD, OTHER_WORD = "Qz7probe7zQ", "Qz7other7zQ"
KEY, VALUE = "qz7key7zq", "qz7 value 7zq"
USER: Message = {"role": "user", "content": "x"}
REPLY: Message = {"role": "assistant", "content": WORD}
FOLLOWING = ("x", " x", "  x", "\n", "\nx", "\n\nx", "é", "1")
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


@dataclass(frozen=True, kw_only=True)
class TurnEnds:
    """How a reply ends, and how one begins."""

    texts: tuple[str, ...] = ()
    """Control tokens, of which the first one behind a reply's beginning ends it."""
    plain: str = ""
    """Ordinary text that ends a reply, for a template that uses no control token."""
    borrowed: bool = False
    """The end-of-turn token is the one that opens the next turn."""
    opener: str = ""
    """What the template writes where a reply begins."""

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Match any of `texts`, the longest first."""
        return re.compile("|".join(map(re.escape, sorted(self.texts, key=len, reverse=True))) or r"(?!)")


@dataclass(frozen=True, kw_only=True, slots=True)
class CallForm:
    """In which form tool calls are shown to a template."""

    parsed: bool
    """Arguments as an object; otherwise as the JSON text of the row."""
    null_content: bool = False
    """Content that says nothing is null; otherwise an empty text."""
    short_ids: bool = False
    """Call ids must have nine letters and digits."""
    drops_calls: bool = False
    """Of several calls in a turn not all are shown."""


def find_turn_ends(render: Render, codec: TextCodec, *, end_texts: Sequence[str]) -> TurnEnds:
    """Return how replies end. `end_texts` are the tokens on which an engine stops."""
    opener = _find_opener(render)
    last, inner = _try(render, [USER, REPLY]), _try(render, [USER, REPLY, USER])
    if last is None or WORD not in last:
        if inner is None or WORD not in inner:
            return TurnEnds(opener=opener)
        last = inner
    closer = last.rpartition(WORD)[2]
    controls = _list_controls(codec, closer)
    starts = set(_list_controls(codec, opener)[:1])
    controls = controls[: next((i for i, text in enumerate(controls) if text in starts), len(controls))]
    if controls:
        chosen = _choose_end(controls, _list_controls(codec, (inner or last).rpartition(WORD)[2]), end_texts)
        return TurnEnds(texts=tuple(dict.fromkeys((chosen, *end_texts))), opener=opener)
    if closer.strip():
        return TurnEnds(plain=closer.rstrip(), opener=opener)
    following = _list_controls(codec, (inner or "").rpartition(WORD)[2])
    if following and following[0] in end_texts:
        return TurnEnds(texts=tuple(end_texts), borrowed=True, opener=opener)
    return TurnEnds(opener=opener)


def find_call_form(render: Render) -> CallForm | None:
    """Return the first form in which a call reads back from what the template writes; None if none does."""
    for short, parsed, null in product((False, True), (True, False), (False, True)):
        form = CallForm(parsed=parsed, null_content=null, short_ids=short)
        if _shows_calls(render, form, (WORD,)):
            return replace(form, drops_calls=_shows_calls(render, form, (WORD, OTHER_WORD)) is False)
    return None


def reads_reasoning(render: Render) -> bool:
    """Tell whether the template shows thinking that stands beside the content."""
    text = _try(render, [USER, {**REPLY, "content": "y", "reasoning_content": WORD}])
    return text is not None and WORD in text


def splits_after(codec: TextCodec, ends: Sequence[str]) -> bool:
    """Tell whether text that is cut behind each of these tokens has the ids of the whole text."""
    return bool(ends) and all(
        codec.encode(f"y{end}{rest}{end}") == codec.encode(f"y{end}") + codec.encode(f"{rest}{end}")
        for end in ends
        for rest in FOLLOWING
    )


def added_by(prompt: str, closed: str) -> str:
    """Return what `prompt` adds to the text of the same conversation without an open reply."""
    return prompt[len(closed) :] if prompt.startswith(closed) else ""


def _find_opener(render: Render) -> str:
    closed, prompt = _try(render, [USER]), _try(render, [USER], open_reply=True)
    return "" if closed is None or prompt is None else added_by(prompt, closed)


def _choose_end(controls: Sequence[str], inner: Sequence[str], end_texts: Sequence[str]) -> str:
    """Return the control token that ends a turn, of those behind a last reply.

    One on which the engine stops and that also ends inner turns; else one of the two. A template
    may write more behind the last turn (an end of text), or before the end (an end of content).
    """
    shared = []
    for ours, theirs in zip(controls, inner, strict=False):
        if ours != theirs:
            break
        shared.append(ours)
    for text in (*shared, *(() if shared else controls)):
        if text in end_texts:
            return text
    return shared[-1] if shared else controls[0]


def _list_controls(codec: TextCodec, text: str) -> list[str]:
    """Return the control tokens of a text in order, repeated ones too."""
    found = codec.find_control_texts(text)
    pattern = re.compile("|".join(map(re.escape, sorted(found, key=len, reverse=True))) or r"(?!)")
    return pattern.findall(text)


def _shows_calls(render: Render, form: CallForm, names: Sequence[str]) -> bool | None:
    """Tell whether a turn's calls, one for each name, read back; None when the template refuses the turn."""
    arguments: Any = {KEY: VALUE} if form.parsed else f'{{"{KEY}": "{VALUE}"}}'
    calls = [
        {
            "id": f"{PROBE_CALL_ID[:-1]}{place}" if form.short_ids else f"call_{place}",
            "type": "function",
            "function": {"name": name, "arguments": arguments},
        }
        for place, name in enumerate(names)
    ]
    content = None if form.null_content else ""
    turn: Message = {"role": "assistant", "content": content, "tool_calls": calls}
    results: list[Message] = [{"role": "tool", "tool_call_id": call["id"], "content": "y"} for call in calls]
    for messages in ([USER, turn], [USER, turn, *results]):
        text = _try(render, messages, [TOOL])
        if text is None:
            continue
        before = _try(render, [USER], [TOOL], open_reply=True) or ""
        written = text[len(before) :] if text.startswith(before) else text
        quoted = (f"'{KEY}'", f'\\"{KEY}\\"', "None")
        return all(word in written for word in (*names, KEY, VALUE)) and not any(q in written for q in quoted)
    return None


def _try(
    render: Render, messages: Sequence[Message], tools: Sequence[Message] = (), *, open_reply: bool = False
) -> str | None:
    try:
        return render(messages, tools, open_reply=open_reply)
    except Exception:  # noqa: BLE001 - a template is the model author's program: it may refuse a probe
        return None
