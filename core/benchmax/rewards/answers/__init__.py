"""Is the answer of a text the right one: what is read, and how each kind of answer is compared."""

from __future__ import annotations

from benchmax.rewards.answers.matching import AnswerKind, infer_kind, is_answer, match_answer
from benchmax.rewards.answers.reading import extract_answer, read_tagged_answer

__all__ = [
    "AnswerKind",
    "extract_answer",
    "infer_kind",
    "is_answer",
    "match_answer",
    "read_tagged_answer",
]
