"""One row as the model reads it, with the tokens that are trained told from the others."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from castform.sft.checking.tokens import Preview, Span
from castform_trainer.sft.batch import Sample
from castform_trainer.sft.turn_template import TurnTemplate


def make_preview(row: int, line: int | None, samples: Sequence[Sample], template: TurnTemplate) -> Preview:
    """Return the samples of a row as text, cut where trained begins and ends."""
    return Preview(row=row, line=line, samples=tuple(cut_spans(sample, template) for sample in samples))


def cut_spans(sample: Sample, template: TurnTemplate) -> tuple[Span, ...]:
    """Return the text of a sample in spans of tokens that are all trained, or all not.

    The spans together are the text of all its ids, as far as that can be cut between tokens.
    """
    spans: list[Span] = []
    ids, start, shown = list(sample.ids), 0, ""
    for trained, group in groupby(weight > 0 for weight in sample.weights):
        end = start + len(list(group))
        whole = template.codec.decode_exactly(ids[:end])
        fits = whole.startswith(shown)
        text = whole[len(shown) :] if fits else template.codec.decode_exactly(ids[start:end])
        spans.append(Span(text=text, trained=trained, tokens=end - start))
        start, shown = end, whole
    return tuple(spans)
