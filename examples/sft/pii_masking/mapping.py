"""From a corpus to a dataset: so many rows at most, nothing left out without being counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice

from corpus import Record

from benchmax.sft import SftDataset

INSTRUCTION = "Replace personal data by labels."
MAX_CHARACTERS = 400


@dataclass(frozen=True, kw_only=True)
class Mapped:
    """A dataset and what was not taken into it."""

    dataset: SftDataset
    left_out: Counter[str] = field(default_factory=Counter)
    """Reason to number of records."""


def mask(record: Record) -> str:
    """Return the text with a label in the place of each span."""
    pieces, last = [], 0
    for span in record.spans:
        pieces += [record.text[last : span.start], f"[{span.label}]"]
        last = span.end
    return "".join([*pieces, record.text[last:]])


def map_record(record: Record) -> dict[str, object]:
    """Return a row: the text is asked, the masked text is answered."""
    return {
        "messages": [
            {"role": "system", "content": INSTRUCTION},
            {"role": "user", "content": record.text},
            {"role": "assistant", "content": mask(record)},
        ],
        "metadata": {"source": record.source},
    }


def map_records(
    records: Iterable[Record], *, rows: int, seen: set[str], max_characters: int = MAX_CHARACTERS
) -> Mapped:
    """Map records until there are `rows` of them; read at most twice as many.

    So an endless corpus is read to a known point and no further. Left out are blank texts, texts of
    more than `max_characters`, and those in `seen`, to which the mapped ones are added: with one
    set for all splits no text is in two. SftDatasetError when no row is left.
    """
    taken: list[dict[str, object]] = []
    left_out: Counter[str] = Counter()
    for record in islice(records, 2 * rows):
        if not record.text.strip():
            left_out["blank"] += 1
        elif len(record.text) > max_characters:
            left_out["too long"] += 1
        elif record.text in seen:
            left_out["seen before"] += 1
        else:
            seen.add(record.text)
            taken.append(map_record(record))
            if len(taken) == rows:
                break
    return Mapped(dataset=SftDataset.from_rows(taken), left_out=left_out)
