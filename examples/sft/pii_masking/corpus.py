"""The corpus: texts in which it is known where personal data stands.

Generated ones come from sentences.py and fictional.py; your own come from a file with one JSON
object a line, `{"text": ..., "spans": [{"start": 11, "end": 16, "label": "NAME"}]}`, in which
start and end count characters and end is behind the last.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fictional import HARMLESS, PARTS, PERSONAL
from sentences import SENTENCES

PLACE = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, kw_only=True)
class Span:
    """Personal data in a text, from character `start` to before `end`."""

    start: int
    end: int
    label: str


@dataclass(frozen=True, kw_only=True)
class Record:
    """A text and all the personal data in it, from left to right."""

    text: str
    spans: tuple[Span, ...]
    source: str
    """Where it comes from: the sentence, or file and line."""


def generate_records(split: str, *, seed: int) -> Iterator[Record]:
    """Yield records without end, no text twice, every sentence of the split equally often.

    The same split and seed give the same records on every machine.
    """
    draw = random.Random(f"{split} {seed}")
    seen: set[str] = set()
    while True:
        sentences = list(SENTENCES[split])
        draw.shuffle(sentences)
        for sentence in sentences:
            record = fill(sentence, split, draw)
            while record.text in seen:
                record = fill(sentence, split, draw)
            seen.add(record.text)
            yield record


def fill(sentence: str, split: str, draw: random.Random) -> Record:
    """Put values of a split into the places of a sentence."""
    pieces, spans, length, last = [], [], 0, 0
    for place in PLACE.finditer(sentence):
        label = place[1]
        before = sentence[last : place.start()]
        value = PERSONAL[label](draw, PARTS[split]) if label in PERSONAL else HARMLESS[label](draw)
        start = length + len(before)
        length = start + len(value)
        last = place.end()
        pieces += [before, value]
        if label in PERSONAL:
            spans.append(Span(start=start, end=length, label=label))
    return Record(text="".join([*pieces, sentence[last:]]), spans=tuple(spans), source=sentence)


def read_records(path: Path) -> Iterator[Record]:
    """Yield the records of a file, line by line: the file may be larger than memory.

    ValueError, with the number of the line, for what is no record.
    """
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                try:
                    yield _parse(line, source=f"{path.name}:{number}")
                except (ValueError, TypeError, KeyError) as error:
                    raise ValueError(f"{path}, line {number}: {describe(error)}") from error


def _parse(line: str, *, source: str) -> Record:
    value = json.loads(line)
    if not isinstance(value, dict) or not isinstance(value.get("text"), str):
        raise ValueError('a record is an object with "text" and "spans"')
    text = value["text"]
    spans = sorted((Span(**span) for span in value["spans"]), key=lambda span: span.start)
    end = 0
    for span in spans:
        if not end <= span.start < span.end <= len(text):
            raise ValueError(f"the span {span.start} to {span.end} overlaps another or is not in the text")
        end = span.end
    return Record(text=text, spans=tuple(spans), source=source)


def describe(error: Exception) -> str:
    """Return what is wrong with a record in words."""
    return f"{error} is missing" if isinstance(error, KeyError) else str(error)
