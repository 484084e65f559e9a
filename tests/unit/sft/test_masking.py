"""Masks over fourteen templates: every trained token is the one that the turn's text has, and no other."""

from __future__ import annotations

import json
import random
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from castform_trainer.sft.masking import MaskedRow, MaskError, TurnTemplate, mask_row

sys.path.insert(0, str(Path(__file__).parent))
from mask_oracle import RefusedError, expect
from mask_rows import CONTROL, FAMILIES, list_end_ids, make_row, make_tokenizer

Texts = dict[int, tuple[str, str]]
"""Index of a message to (prompt, reply)."""
OPTIONS = {"llama3": {"date_string": "1 May 2026"}}


@cache
def load(name: str) -> tuple[TurnTemplate, Any]:
    tokenizer = make_tokenizer(name)
    ends = list_end_ids(name, tokenizer)
    return TurnTemplate(tokenizer, name=name, end_ids=ends, options=OPTIONS.get(name)), tokenizer


def count_wrong(name: str, row: dict[str, Any]) -> tuple[int, int]:
    """Return (wrong tokens or texts, trained tokens) of a row against the oracle; a refusal by both is (0, 0)."""
    template, tokenizer = load(name)
    trained = [i for i, m in enumerate(row["messages"]) if m["role"] == "assistant" and m.get("weight", 1)]
    expected, neutral = expect_both(name, row)
    try:
        samples = mask_row(template, row)
    except MaskError as error:
        assert not (expected and trained), f"{name} refused a row that it can show: {error}"
        return 0, 0
    assert expected, f"{name} took a row that it cannot show"
    assert sorted(place for sample in samples for place in sample.places) == trained
    wrong = sum(count_wrong_in(tokenizer, sample, expected, neutral) for sample in samples)
    return wrong, sum(sum(sample.trained) for sample in samples)


def expect_both(name: str, row: dict[str, Any]) -> tuple[Texts, Texts]:
    """Return the oracle's texts of a row, and of the same row without control tokens in its contents."""
    plain = json.loads(CONTROL.sub("poison", json.dumps(row, ensure_ascii=False)))
    both = []
    for given in (row, plain):
        try:
            both.append({place: (prompt, reply) for place, prompt, reply in expect(name, given)})
        except RefusedError:
            both.append({})
    return both[0], both[1]


def count_wrong_in(tokenizer: Any, sample: MaskedRow, expected: Texts, neutral: Texts) -> int:
    """Compare one sample with texts, with their ids where no content spells a control token, and with spans."""
    wrong = 0
    backend = tokenizer.backend_tokenizer
    controls = set(tokenizer.get_added_vocab().values())
    spans = [False] * len(sample.ids)
    assert len(sample.turns) == len(sample.places)
    for place, (start, end) in zip(sample.places, sample.turns, strict=True):
        spans[start:end] = [True] * (end - start)
        for ids, text, plain in zip(
            (sample.ids[:start], sample.ids[start:end]), expected[place], neutral[place], strict=True
        ):
            right = tuple(backend.encode(plain, add_special_tokens=False).ids)
            if text == plain:
                wrong += ids != right
            wrong += backend.decode(ids, skip_special_tokens=False) != text
            wrong += [i for i in ids if i in controls] != [i for i in right if i in controls]
    return wrong + sum(a != b for a, b in zip(spans, sample.trained, strict=True))


@pytest.mark.parametrize("name", FAMILIES)
def test_trained_spans_read_as_the_turns_of_the_source(name):
    rng = random.Random(f"masks {name}")
    results = [count_wrong(name, make_row(rng, FAMILIES[name])) for _ in range(25)]
    assert sum(wrong for wrong, _ in results) == 0
    assert sum(total > 0 for _, total in results) >= 12


@pytest.mark.slow
def test_five_thousand_conversations_have_no_wrong_token():
    rng = random.Random("five thousand")
    names = list(FAMILIES)
    results = [
        count_wrong(n, make_row(rng, FAMILIES[n])) for i in range(5000) for n in [names[i % len(names)]]
    ]
    assert sum(wrong for wrong, _ in results) == 0
    assert sum(total > 0 for _, total in results) >= 4000
