"""Turn a row of a dataset into token ids and the mask of those that are trained.

Trained are the assistant turns of weight 1: what the model has to write behind its prompt, tool
calls and the end-of-turn token included. Headers, generation prompts and what a template writes
behind the end of a turn are not. A turn stands behind the very ids of the prompt that a server
would be given for it; where a template shows earlier turns otherwise than they were written
(thinking stripped from the history), a row becomes several samples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from castform_trainer.gateway.errors import ApiError
from castform_trainer.sft.turn_template import TurnTemplate, load_turn_template
from castform_trainer.sft.turns import MaskError, TurnPlace, read_turn

__all__ = ["MaskError", "MaskedRow", "TurnTemplate", "load_turn_template", "mask_row"]


@dataclass(frozen=True, kw_only=True, slots=True)
class MaskedRow:
    """One sample: a context, and the turns of a row that are trained in it."""

    ids: tuple[int, ...]
    trained: tuple[bool, ...]
    """One an id: True where the prediction of this id is trained. Never the first."""
    turns: tuple[tuple[int, int], ...]
    """Half-open spans of `ids`, one a trained turn, in order."""
    places: tuple[int, ...]
    """Index of each trained turn's message in the row."""


def mask_row(template: TurnTemplate, row: Mapping[str, Any]) -> tuple[MaskedRow, ...]:
    """Return the samples of a row, each trained turn in exactly one of them.

    Turns whose prompts continue each other share a sample. `row` is a valid row of
    benchmax-sft-v1. Raises MaskError, which names the message, when the template does not show
    a trained turn in full, and when nothing or everything would be trained.
    """
    try:
        messages, tools = template.prepare(row)
    except ApiError as error:
        raise MaskError(None, error.message) from error
    places = [
        i for i, raw in enumerate(row["messages"]) if raw["role"] == "assistant" and raw.get("weight", 1)
    ]
    if not places:
        raise MaskError(None, "it has no assistant turn of weight 1, so its mask would be empty")
    if template.call_form is None:
        _refuse_calls(template, messages)
    samples: list[MaskedRow] = []
    known: dict[str, tuple[int, ...]] = {}
    for place in places:
        turn = read_turn(TurnPlace(template=template, messages=messages, tools=tools, place=place))
        prompt = template.encode(turn.prompt, known)
        reply = template.encode_reply(turn.prompt, turn.reply)
        _add_turn(samples, place, prompt, reply)
    for sample in samples:
        if all(sample.trained[1:]):
            raise MaskError(
                sample.places[0], "every token of it would be trained: no prompt stands before it"
            )
    return tuple(samples)


def _refuse_calls(template: TurnTemplate, messages: Sequence[Mapping[str, Any]]) -> None:
    for place, message in enumerate(messages):
        if message.get("tool_calls"):
            raise MaskError(
                place,
                f"the chat template of {template.name} does not show tool calls in a form that reads back",
            )


def _add_turn(samples: list[MaskedRow], place: int, prompt: tuple[int, ...], reply: tuple[int, ...]) -> None:
    """Add a turn to the sample that its prompt continues, or as a new one."""
    start, size = len(prompt), len(prompt) + len(reply)
    for i in range(len(samples) - 1, -1, -1):
        old = samples[i]
        if prompt[: len(old.ids)] == old.ids:
            samples[i] = MaskedRow(
                ids=prompt + reply,
                trained=old.trained + (False,) * (start - len(old.ids)) + (True,) * len(reply),
                turns=(*old.turns, (start, size)),
                places=(*old.places, place),
            )
            return
    trained = (False,) * start + (True,) * len(reply)
    samples.append(
        MaskedRow(
            ids=prompt + reply,
            trained=(False, *trained[1:]),
            turns=((max(start, 1), size),),
            places=(place,),
        )
    )
