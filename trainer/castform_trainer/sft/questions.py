"""The held-out rows that a model answers: what it is asked, and what the row itself says there."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from castform.seeds import derive_seed
from castform.sft.answers import Answer
from castform_trainer.engines.contract import Generation
from castform_trainer.gateway.parsers.think import CLOSE, OPEN
from castform_trainer.sft.batch import Sample
from castform_trainer.sft.turn_reading import TurnReader, are_same_calls, list_calls
from castform_trainer.sft.turn_template import TurnTemplate

MARGIN_TOKENS = 16


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """A row up to its last trained assistant turn. The ids are those that the turn is measured on."""

    row: int
    prompt_ids: tuple[int, ...]
    answer_ids: tuple[int, ...]
    """The row's own turn, with what ends it."""
    max_new_tokens: int
    """Half as many again as the row's own turn has, and 16; never past the context."""
    message: Mapping[str, Any]
    """The row's own turn."""
    tools: Sequence[Mapping[str, Any]]


def make_questions(
    rows: Sequence[Mapping[str, Any]],
    samples: Sequence[Sample],
    *,
    count: int,
    seed: int,
    context_tokens: int,
) -> list[Question]:
    """Return one question for each of `count` rows, a sample drawn by `seed` where there are more.

    No row is longer than the context, so each leaves room for its own answer at least.
    """
    last: dict[int, Sample] = {}
    for sample in samples:
        known = last.get(sample.row)
        if known is None or sample.last_message > known.last_message:
            last[sample.row] = sample
    chosen = sorted(last)
    if count < len(chosen):
        chosen = sorted(random.Random(derive_seed(seed, "answers")).sample(chosen, count))
    return [_make_question(rows[row], last[row], context_tokens) for row in chosen]


def _make_question(row: Mapping[str, Any], sample: Sample, context_tokens: int) -> Question:
    end = max(place for place, weight in enumerate(sample.weights) if weight > 0) + 1
    start = end
    while sample.weights[start - 1] > 0:
        start -= 1
    size = end - start
    return Question(
        row=sample.row,
        prompt_ids=tuple(sample.ids[:start]),
        answer_ids=tuple(sample.ids[start:end]),
        max_new_tokens=min(size + size // 2 + MARGIN_TOKENS, context_tokens - start),
        message=row["messages"][sample.last_message],
        tools=tuple(row.get("tools") or ()),
    )


class AnswerReader:
    """Reads replies as the gateway does, the row's own turn too, and compares them."""

    def __init__(self, template: TurnTemplate, *, end_ids: Sequence[int]) -> None:
        self.end_ids = tuple(dict.fromkeys((*end_ids, *_ids_of(template))))
        """Any of them ends a reply."""
        self.stop = (template.ends.plain.strip(),) if template.ends.plain.strip() else ()
        """Ordinary text that ends a reply, for a template that uses no control token."""
        self.decode = template.codec.decode_exactly
        self._codec = template.codec
        self._reader = TurnReader(template, end_ids=self.end_ids, stop=self.stop)

    def read(self, question: Question, reply: Generation) -> Answer:
        """Say what a reply is worth."""
        own = Generation(ids=question.answer_ids, logprobs=(), finish_reason="stop", version=0)
        expected, found = (self._read(question, each) for each in (own, reply))
        wanted = list_calls(question.message)
        if are_same_calls(list_calls(expected), wanted):
            correct = are_same_calls(list_calls(found), wanted)
            if not wanted:
                correct = correct and _content(expected) == _content(found)
        else:  # this template's calls do not read back
            correct = self._text(question.answer_ids) == self._text(reply.ids)
        return Answer(
            row=question.row,
            expected=self._text(question.answer_ids),
            text=self._text(reply.ids),
            correct=correct and reply.finish_reason == "stop",
            cut=reply.finish_reason != "stop",
            tokens=len(reply.ids),
        )

    def _read(self, question: Question, reply: Generation) -> Mapping[str, Any]:
        return self._reader.read(reply, prompt_ids=question.prompt_ids, tools=question.tools)

    def _text(self, ids: Sequence[int]) -> str:
        """Return what was written, without what ends it and without outer whitespace."""
        if ids and ids[-1] in self.end_ids:
            ids = ids[:-1]
        text = self._codec.decode(ids, keep=(*self._reader.tool_format.markers, OPEN, CLOSE))
        for stop in self.stop:
            text = text.partition(stop)[0]
        return text.strip()


def _ids_of(template: TurnTemplate) -> list[int]:
    """Return the ids of the control tokens that end a turn."""
    found = [template.codec.encode(text) for text in template.ends.texts]
    return [ids[0] for ids in found if len(ids) == 1]


def _content(message: Mapping[str, Any]) -> str:
    return str(message.get("content") or "").strip()
