"""Find out how a chat template ends a turn, and how its texts may be cut.

Each question is answered by rendering a small conversation with words that no template holds.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from castform_trainer.gateway.call_form import USER, WORD, Render, try_render
from castform_trainer.gateway.messages import Message
from castform_trainer.gateway.tokens import TextCodec

REPLY: Message = {"role": "assistant", "content": WORD}
FOLLOWING = ("x", " x", "  x", "\n", "\nx", "\n\nx", "é", "1")


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


def find_turn_ends(render: Render, codec: TextCodec, *, end_texts: Sequence[str]) -> TurnEnds:
    """Return how replies end. `end_texts` are the tokens on which an engine stops."""
    opener = _find_opener(render)
    last, inner = try_render(render, [USER, REPLY]), try_render(render, [USER, REPLY, USER])
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
    closed, prompt = try_render(render, [USER]), try_render(render, [USER], open_reply=True)
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
