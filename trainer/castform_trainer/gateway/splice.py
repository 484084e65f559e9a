"""Build the prompt of a request out of the ids that were really sampled before.

A request that continues a recorded call gets that call's prompt ids and sampled ids as they
are, followed by the ids of the text that the template puts after the reply. Sampled text is
never encoded. Where the template or the client rewrote the history the prompt forks: the new
text is encoded from the last place both agree on, and the call is counted as forked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from castform.calls import SpliceKind
from castform_trainer.gateway.messages import Message, extend_digest
from castform_trainer.gateway.template import TemplateRenderer
from castform_trainer.gateway.tokens import TextCodec


@dataclass(frozen=True, kw_only=True, slots=True)
class Served:
    """One reply that was given, with the ids behind it."""

    prompt_text: str
    prompt_ids: tuple[int, ...]
    sampled_ids: tuple[int, ...]
    end_text: str
    """Text of the end-of-turn id that was sampled; empty when the reply was cut."""
    message: Message
    """The reply in normal form."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Prompt:
    """What goes to the engine, and how it came about."""

    text: str
    ids: tuple[int, ...]
    splice: SpliceKind
    reused: int = 0
    """Leading ids that were taken from a record."""


@dataclass(kw_only=True, slots=True)
class History:
    """All replies of one session, found by the digest of the conversation that ends in them."""

    served: dict[bytes, Served] = field(default_factory=dict)
    asked: set[bytes] = field(default_factory=set)
    """Digests of whole requests that were answered."""
    sent: set[bytes] = field(default_factory=set)
    """Digests of every prefix that a client sent."""
    replies: set[bytes] = field(default_factory=set)
    """Digests of replies alone, wherever they were given."""

    def remember(self, digests: Sequence[bytes], replies: Sequence[Served]) -> None:
        """Add the replies to one request; of equal replies the first choice counts."""
        self.asked.add(digests[-1])
        self.sent.update(digests)
        for reply in reversed(replies):
            self.served[extend_digest(digests[-1], reply.message)] = reply
            if reply.message["content"] or reply.message.get("tool_calls"):
                self.replies.add(extend_digest(b"", reply.message))


def build_prompt(
    history: History,
    messages: Sequence[Message],
    digests: Sequence[bytes],
    *,
    tools: Sequence[Mapping[str, Any]],
    options: Mapping[str, Any],
    renderer: TemplateRenderer,
    codec: TextCodec,
) -> Prompt:
    """Return the prompt of a request. `digests` are `chain_digests` of its messages."""
    places = [i for i, message in enumerate(messages) if message["role"] == "assistant"]
    hits = [(i, history.served[digests[i + 1]]) for i in places if digests[i + 1] in history.served]
    whole = _restore_reasoning(messages, hits)
    text = renderer.render(whole, tools, options)
    rewritten = _is_rewritten(history, messages, digests, places)
    for place, served in reversed(hits):
        tail = _find_tail(whole, place, served, text, tools=tools, options=options, renderer=renderer)
        if tail is None:
            rewritten = True
            continue
        start = served.prompt_ids + served.sampled_ids
        kind: SpliceKind = "forked" if rewritten else "spliced"
        return Prompt(text=text, ids=start + codec.encode(tail), splice=kind, reused=len(start))
    return Prompt(text=text, ids=codec.encode(text), splice="forked" if rewritten else "first")


def _restore_reasoning(messages: Sequence[Message], hits: Sequence[tuple[int, Served]]) -> list[Message]:
    """Put back reasoning that the client left out of its echo; the template decides if it is shown."""
    whole = list(messages)
    for place, served in hits:
        reasoning = served.message.get("reasoning_content")
        if reasoning and "reasoning_content" not in whole[place]:
            whole[place] = {**whole[place], "reasoning_content": reasoning}
    return whole


def _is_rewritten(
    history: History, messages: Sequence[Message], digests: Sequence[bytes], places: Sequence[int]
) -> bool:
    """Tell whether a reply of ours comes back changed, or in front of another history."""
    for i in places:
        if digests[i + 1] in history.served or digests[i + 1] in history.sent:
            continue
        if digests[i] in history.asked or extend_digest(b"", messages[i]) in history.replies:
            return True
    return False


def _find_tail(
    messages: Sequence[Message],
    place: int,
    served: Served,
    text: str,
    *,
    tools: Sequence[Mapping[str, Any]],
    options: Mapping[str, Any],
    renderer: TemplateRenderer,
) -> str | None:
    """Return the text to encode after the recorded ids, or None when they cannot be reused."""
    if not text.startswith(served.prompt_text):
        return None
    reply = messages[place]
    given = served.message.get("reasoning_content")
    if given and reply.get("reasoning_content") != given:
        return None
    suffix = renderer.find_suffix(messages, place, tools, options)
    if suffix is None or not text.endswith(suffix) or len(served.prompt_text) + len(suffix) > len(text):
        return None
    shown = text[len(served.prompt_text) : len(text) - len(suffix)]
    if not renderer.shows_reply(shown, reply):
        return None
    closer = renderer.get_closer()
    cut = closer.find(served.end_text) if served.end_text else -1
    if cut >= 0 and suffix.startswith(closer):
        return suffix[cut + len(served.end_text) :]
    return suffix
