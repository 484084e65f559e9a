"""Answers to held-out rows: how many are exactly the row's own, and whether there are more of them.

Pure Python: the command line and the dashboard read stored answers without torch.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from castform.intervals import RESAMPLES
from castform.seeds import derive_seed
from castform.verdict import Comparison, Verdict, compare_values

EXACT_MATCH = "exact match"
LABELS = {"before": "answers_before", "after": "answers_after"}
"""Under which labels the store keeps the answers beside the losses of a run."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What the model wrote, greedily, where a held-out row has its last trained assistant turn."""

    row: int
    """Number of the row in its file, from 0."""
    expected: str
    """The row's own turn, calls included, in the form that this model writes."""
    text: str
    correct: bool
    """The same as the row's own turn: in text without outer whitespace, in names and arguments of
    its calls. Thinking is left out where the model's template marks it."""
    cut: bool
    """It had not ended after half as many tokens again as the row's own turn, and 16."""
    tokens: int


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldOutAnswers:
    """The answers of one model to fixed rows."""

    answers: Sequence[Answer]
    rows: int
    """Of the file: more than there are answers where only a sample was asked."""
    seconds: float

    @property
    def correct(self) -> int:
        return sum(answer.correct for answer in self.answers)

    @property
    def exact_match(self) -> float:
        """Share of the answers that are correct."""
        return statistics.fmean(answer.correct for answer in self.answers)

    def as_dict(self, *, with_answers: bool = True) -> dict[str, Any]:
        """Return JSON values."""
        data = {
            "exact_match": self.exact_match,
            "correct": self.correct,
            "answer_count": len(self.answers),
            "cut": sum(answer.cut for answer in self.answers),
            "rows": self.rows,
            "seconds": self.seconds,
        }
        return {**data, "answers": [asdict(answer) for answer in self.answers]} if with_answers else data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> HeldOutAnswers:
        """Read back what `as_dict` gave."""
        answers = tuple(Answer(**answer) for answer in data["answers"])
        return cls(answers=answers, rows=data["rows"], seconds=data["seconds"])


def compare_answers(
    before: HeldOutAnswers, after: HeldOutAnswers, *, seed: int = 0, resamples: int = RESAMPLES
) -> Comparison:
    """Compare exact match, paired by row. ValueError for answers to other rows."""
    if [(a.row, a.expected) for a in before.answers] != [(a.row, a.expected) for a in after.answers]:
        raise ValueError("the two lists of answers are to different rows")
    pairs = [(float(a.correct), float(b.correct)) for a, b in zip(before.answers, after.answers, strict=True)]
    return compare_values(EXACT_MATCH, pairs, seed=derive_seed(seed, "verdict"), resamples=resamples)


def add_answers(verdict: Verdict, found: Comparison) -> Verdict:
    """Return the verdict with exact match beside the loss. The word stays that of the loss.

    The loss looks at every token of every held-out row, while answers are few, and all that are
    not the row's own to the letter count as wrong, a good one in other words among them. Where
    the two contradict each other, `describe_answers` says so.
    """
    return replace(verdict, components=(found,))


def describe_answers(found: Comparison, *, loss: str) -> str:
    """Return exact match as one sentence; `loss` is the verdict's word."""
    before, after = (round(share * found.examples) for share in (found.before, found.after))
    sentence = (
        f"{found.word}: exact match {found.before:.3f} -> {found.after:.3f} ({before} -> {after} of "
        f"{found.examples} answers), difference {found.difference:+.3f} "
        f"(95 % interval {found.low:+.3f} to {found.high:+.3f})"
    )
    if {found.word, loss} == {"better", "worse"}:
        sentence += f"; the loss says {loss}: read the answers before you choose"
    return sentence


def read_comparison(verdict: Mapping[str, Any]) -> Comparison | None:
    """Return exact match from a stored verdict; None when no rows were answered."""
    found = [item for item in verdict.get("components") or () if item["name"] == EXACT_MATCH]
    return Comparison(**found[0]) if found else None
