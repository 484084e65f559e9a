"""Find what a model reads, and what it is to write, at one assistant turn of a conversation.

The prompt is the conversation up to the turn, rendered with an open reply, as a server would be
asked for it. The reply is what the template shows of the turn when it is the last one. Both are
texts in which control tokens spelled by the content are guarded (`TextCodec.guard`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from castform_trainer.gateway.call_form import WORD
from castform_trainer.gateway.messages import Message
from castform_trainer.gateway.parsers.think import CLOSE, OPEN, split_reasoning
from castform_trainer.sft.probing import added_by
from castform_trainer.sft.turn_template import TurnTemplate


class MaskError(ValueError):
    """A row whose trained tokens cannot be told. `place` is the index of the message, None for the row."""

    def __init__(self, place: int | None, reason: str) -> None:
        where = "the row" if place is None else f"messages[{place}]"
        super().__init__(f"cannot mask {where}: {reason}")
        self.place = place


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnPlace:
    """An assistant turn in a prepared row (`TurnTemplate.prepare`)."""

    template: TurnTemplate
    messages: Sequence[Message]
    tools: Sequence[Message]
    place: int

    @property
    def message(self) -> Message:
        return self.messages[self.place]

    @property
    def before(self) -> Sequence[Message]:
        return self.messages[: self.place]

    def render(self, messages: Sequence[Message], *, open_reply: bool = False) -> str:
        """Return the text of messages with the row's tools. Raises whatever the template raises."""
        return self.template.render(messages, self.tools, open_reply=open_reply)

    def refuse(self, reason: str) -> MaskError:
        """Return the error that says what the template does with this turn."""
        return MaskError(self.place, f"the chat template of {self.template.name} {reason}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Turn:
    """One assistant turn as texts."""

    prompt: str
    """What the model is given."""
    reply: str
    """What it is to write, with its end-of-turn token."""
    thinking: str = ""
    """The end of `prompt` that opens thinking, where the template's own form of the turn has none."""


def read_turn(at: TurnPlace) -> Turn:
    """Return the texts of a turn. MaskError when the template does not show it in full."""
    whole, is_last = _render_through(at)
    turn = _split_turn(at, _render_prompt(at), whole)
    reply = _cut_end(at, turn.reply)
    if is_last and _opens_turn(at, turn.reply[len(reply) :], at.template.ends.opener):
        raise at.refuse("shows this turn as several messages")
    turn = replace(turn, reply=reply)
    calls, form = at.message.get("tool_calls", ()), at.template.call_form
    if len(calls) > 1 and form is not None and form.drops_calls:
        raise at.refuse(f"shows only some of its {len(calls)} calls")
    lost = _find_lost(at.message, turn.reply)
    if lost == "thinking" or (lost is None and turn.thinking):
        turn = replace(turn, reply=_restore_thinking(at, turn))
        lost = _find_lost(at.message, turn.reply)
    if lost is not None:
        raise at.refuse(f"does not show its {lost}")
    return turn


def _render_prompt(at: TurnPlace) -> str | None:
    """Return the prompt; None in front of a first message, where a template has no conversation to show."""
    if at.place == 0:
        return None
    try:
        return at.render(at.before, open_reply=True)
    except Exception as error:
        raise _explain(at, error) from error


def _render_through(at: TurnPlace) -> tuple[str, bool]:
    """Return the conversation through the turn, or, for a template that insists on it, with its neighbours.

    The second value tells whether the turn is the last one in it.
    """
    results = at.place + 1
    while results < len(at.messages) and at.messages[results]["role"] == "tool":
        results += 1
    first: Exception | None = None
    for end in dict.fromkeys((at.place + 1, results, len(at.messages))):
        try:
            return at.render(at.messages[:end]), end == at.place + 1
        except Exception as error:  # noqa: BLE001 - a template is the model author's program
            first = first or error
    assert first is not None
    raise _explain(at, first) from first


def _explain(at: TurnPlace, error: Exception) -> MaskError:
    """Return the error for a template that raises; it names the system message when that is at fault."""
    if at.place > 0 and at.messages[0]["role"] == "system":
        try:
            at.render(at.messages[1 : at.place + 1])
        except Exception:  # noqa: BLE001 - it refuses more than the system message
            return at.refuse(f"refused the conversation up to this turn: {error}")
        return MaskError(0, f"the chat template of {at.template.name} takes no system message: {error}")
    aside = ""
    if at.tools and not at.template.knows_tools:
        aside = " (it knows no tools, so they are shown to it in a system message)"
    return at.refuse(f"refused the conversation up to this turn: {error}{aside}")


def _split_turn(at: TurnPlace, prompt: str | None, whole: str) -> Turn:
    """Cut a rendered conversation where the turn begins; the reply runs to the end of the text."""
    if prompt is not None and whole.startswith(prompt):
        return Turn(prompt=prompt, reply=whole[len(prompt) :])
    opener = at.template.ends.opener
    if prompt is not None:
        opener = added_by(prompt, at.render(at.before)) or opener
    thinking = opener[opener.rindex(OPEN) :] if opener.rstrip().endswith(OPEN) else ""
    for header, missing in ((opener, ""), (opener.removesuffix(thinking), thinking)):
        before, found, reply = whole.rpartition(header) if header.strip() else ("", "", "")
        if found and not _holds_another_turn(at, reply, header):
            given = before + header + missing if prompt is None else prompt
            return Turn(prompt=given, reply=reply, thinking=missing)
    raise at.refuse("shows this turn otherwise than its own prompt for it begins")


def _holds_another_turn(at: TurnPlace, reply: str, header: str) -> bool:
    """Tell whether a turn begins behind the end of the first one: then `header` was an earlier turn's."""
    end = at.template.ends.pattern.search(reply)
    return _opens_turn(at, reply[end.end() if end else 0 :], header)


def _opens_turn(at: TurnPlace, text: str, header: str) -> bool:
    """Tell whether a text holds what begins `header`: its first control token, or all of it without one."""
    controls = at.template.codec.find_control_texts(header)
    start = min(controls, key=header.index) if controls else header.strip()
    return bool(start) and start in text


def _find_lost(message: Message, reply: str) -> str | None:
    """Return which part of a message is not in its rendered form; None when all of it is."""
    content = message["content"] or ""
    if message.get("reasoning_content", "").strip() not in reply:
        return "thinking"
    if content.strip() not in reply:
        if CLOSE not in content:
            return "content" + (" beside its tool calls" if message.get("tool_calls") else "")
        before, _, after = content.partition(CLOSE)
        if before.strip().removeprefix(OPEN).strip() not in reply or after.strip() not in reply:
            return "thinking"
    return _find_lost_call(message, reply)


def _find_lost_call(message: Message, reply: str) -> str | None:
    """Look for the names and arguments of the calls beside the content, one call after the other."""
    reply, at = reply.replace((message["content"] or "").strip(), "", 1), 0
    for call in message.get("tool_calls") or ():
        name, arguments = call["function"]["name"], call["function"]["arguments"]
        start = reply.find(name, at)
        if start < 0:
            return f"call of {name}"
        at = start + len(name)
        for text in _list_texts(arguments if isinstance(arguments, dict) else {}):
            # Templates escape in their own ways, but leave words as they are or write them as JSON does.
            words = re.findall(r"\w+", text)
            if not all(word in reply[at:] or json.dumps(word)[1:-1] in reply[at:] for word in words):
                return f"argument {text!r} of {name}"
    return None


def _list_texts(value: Any) -> Iterator[str]:
    """Yield every key and text in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from _list_texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _list_texts(inner)


def _restore_thinking(at: TurnPlace, turn: Turn) -> str:
    """Return the reply with the thinking in front of its content, continued from where the prompt is.

    A template may strip thinking even from the last turn, but the model has to write it. A turn
    that thinks nothing closes at once what the prompt opened.
    """
    message = dict(at.message)
    reasoning, content = message.pop("reasoning_content", ""), message["content"] or ""
    if not reasoning and CLOSE in content:
        reasoning, content = split_reasoning(content, opened=not content.lstrip().startswith(OPEN))
        message["content"] = content
    bare = _cut_end(at, _split_turn(at, turn.prompt, at.render([*at.before, message])).reply)
    if bare.lstrip().startswith(OPEN):  # an empty block of the template's own
        bare = bare.partition(CLOSE)[2].lstrip("\n")
    gap = "" if turn.prompt.endswith("\n") else "\n"
    opening = gap if turn.prompt.rstrip().endswith(OPEN) else f"{OPEN}\n"
    return f"{opening}{reasoning}\n{CLOSE}\n\n{bare}"


def _cut_end(at: TurnPlace, reply: str) -> str:
    """Return the reply through its end-of-turn token, without what the template writes behind that."""
    ends = at.template.ends
    if ends.borrowed:
        return reply + _find_borrowed_end(at)
    end = ends.pattern.search(reply)
    if end:
        return reply[: end.end()]
    stripped = reply.rstrip()
    if ends.plain and stripped.endswith(ends.plain):
        return stripped
    raise at.refuse("writes no end of turn behind it, so the mask would have none and the model never stop")


def _find_borrowed_end(at: TurnPlace) -> str:
    """Return the token that opens the message behind a turn: a tool's result or else a user's."""
    calls = at.message.get("tool_calls")
    following: Message = {"role": "user", "content": WORD}
    if calls:
        following = {"role": "tool", "tool_call_id": calls[0]["id"], "content": WORD}
    through = at.messages[: at.place + 1]
    try:
        whole, text = at.render(through), at.render([*through, following])
    except Exception as error:
        raise _explain(at, error) from error
    ends = list(at.template.ends.pattern.finditer(text.rpartition(WORD)[0]))
    if not ends:
        raise at.refuse("writes no end of turn behind it")
    gap = text[len(whole) : ends[-1].start()] if text.startswith(whole) else ""
    return ("" if gap.strip() else gap) + ends[-1].group()
