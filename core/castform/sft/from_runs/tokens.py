"""Sampled token ids beside a file of rows: FILE.tokens.jsonl, a line for each row that has them.

A line names its row by the sha256 of the row's canonical bytes, so the rows may be put in
another order, split over files or left out; a row that was changed has no ids any more.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from castform.calls import ModelCall
from castform.errors import UsageError
from castform.token_marks import TokenMarks


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenTurn:
    """A reply that is trained on: ids[start:end] of its sample, as they were sampled."""

    start: int
    end: int
    message: int
    """Index in the row's messages."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenSample:
    """A context as the model was given it, with the replies in it."""

    ids: tuple[int, ...]
    turns: tuple[TokenTurn, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenRow:
    """The token ids of one row: a sample for each context that does not continue another."""

    row_sha256: str
    marks: TokenMarks | None
    """None: the run did not keep them."""
    samples: tuple[TokenSample, ...]


def tokens_path(path: Path) -> Path:
    """Return where the sampled ids of a file of rows are: train.jsonl has train.tokens.jsonl."""
    return path.with_name(f"{path.name.removesuffix('.jsonl')}.tokens.jsonl")


def row_digest(line: bytes) -> str:
    r"""Return the sha256 of a row's canonical bytes, with or without the `\n` behind them."""
    return hashlib.sha256(line.removesuffix(b"\n")).hexdigest()


def join_turns(turns: Mapping[int, ModelCall]) -> tuple[TokenSample, ...] | None:
    """Return the samples of a row's turns, each a prompt and a reply just as they were recorded.

    A turn whose prompt begins with an earlier turn's prompt and reply shares its sample. None
    when a call has no ids.
    """
    samples: list[TokenSample] = []
    for place, call in sorted(turns.items()):
        if not call.prompt_ids or not call.sampled_ids:
            return None
        prompt, reply = tuple(call.prompt_ids), tuple(call.sampled_ids)
        turn = TokenTurn(start=len(prompt), end=len(prompt) + len(reply), message=place)
        for index in range(len(samples) - 1, -1, -1):
            old = samples[index]
            if prompt[: len(old.ids)] == old.ids:
                samples[index] = TokenSample(ids=prompt + reply, turns=(*old.turns, turn))
                break
        else:
            samples.append(TokenSample(ids=prompt + reply, turns=(turn,)))
    return tuple(samples)


def encode_token_row(row: TokenRow) -> bytes:
    """Return the line of a row."""
    value = {
        "row_sha256": row.row_sha256,
        "marks": None
        if row.marks is None
        else {name: getattr(row.marks, name) for name in TokenMarks.__slots__},
        "samples": [
            {"ids": sample.ids, "turns": [(turn.start, turn.end, turn.message) for turn in sample.turns]}
            for sample in row.samples
        ],
    }
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def read_token_rows(path: Path) -> Iterator[TokenRow]:
    """Yield the rows of a FILE.tokens.jsonl. UsageError, with the line, when it is damaged or unreadable."""
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                try:
                    yield _decode(json.loads(line))
                except (ValueError, TypeError, LookupError, RecursionError) as error:
                    raise UsageError(
                        f"{path}:{number} does not hold sampled token ids: {error}",
                        hint="convert the run again, or train on the rows' text with "
                        "--set data.use_sampled_ids=false",
                    ) from error
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from error


def _decode(value: Any) -> TokenRow:
    marks = value["marks"]
    return TokenRow(
        row_sha256=str(value["row_sha256"]),
        marks=None if marks is None else TokenMarks(**marks),
        samples=tuple(map(_decode_sample, value["samples"])),
    )


def _decode_sample(value: Any) -> TokenSample:
    ids = tuple(value["ids"])
    if not all(type(i) is int and i >= 0 for i in ids):
        raise ValueError("an id is no whole number from 0")
    turns = tuple(TokenTurn(start=start, end=end, message=place) for start, end, place in value["turns"])
    at = 1  # nothing predicts the first token
    for turn in turns:
        if not at <= turn.start < turn.end <= len(ids) or turn.message < 0:
            raise ValueError(f"a turn from {turn.start} to {turn.end} of {len(ids)} ids")
        at = turn.end
    if not turns:
        raise ValueError("a sample without a turn")
    return TokenSample(ids=ids, turns=turns)
