"""Questions about a corpus, and which of them are held out: those about documents that are.

A hash of a document's name puts it on one side, whatever the seed and the sizes. A question
that needs documents of both sides is left out; every document can be found from both.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.resources import files
from pathlib import Path
from typing import Any

from benchmax.envs import DatasetSplit, canonical_example_id
from benchmax.envs.special_files import is_special_file
from benchmax.rag.sources import reference_sources

HELD_OUT_SHARE = 0.4
"""Share of the documents whose questions only evaluation sees."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    text: str
    answer: str
    sources: tuple[str, ...]
    """The documents that hold the answer; more than one when one leads to the other."""

    @property
    def id(self) -> str:
        return canonical_example_id([self.text, list(self.sources)])[:16]

    @property
    def side(self) -> DatasetSplit | None:
        """The split that may ask it; None when its documents lie on both sides."""
        sides = {split_of(source) for source in self.sources}
        return sides.pop() if len(sides) == 1 else None


def split_of(source: str) -> DatasetSplit:
    """Return the side of a document."""
    digest = hashlib.sha256(f"castform-env-search:{source}".encode()).digest()
    return "eval" if int.from_bytes(digest[:8], "big") < HELD_OUT_SHARE * 2**64 else "train"


def load_questions() -> list[Question]:
    """Return the questions about the package's own articles."""
    text = (files("castform_env_search") / "questions.jsonl").read_text(encoding="utf-8")
    rows = [json.loads(line) for line in text.splitlines()]
    return [
        Question(text=row["question"], answer=row["answer"], sources=tuple(row["articles"])) for row in rows
    ]


def read_questions(path: Path, known: Collection[str]) -> list[Question]:
    """Return the questions of a JSONL file about documents with the `known` names.

    A line has `question`, `answer` and the documents as `sources`, or as `reference_chunks` whose
    metadata names a file. ValueError: all that is wrong with the file, ten lines of it at most.
    """
    questions: dict[str, Question] = {}
    faults: list[str] = []
    if is_special_file(path):
        raise ValueError(f"{path} is a pipe or a device; questions need a regular file")
    for number, line in enumerate(path.read_text(encoding="utf-8-sig").split("\n"), start=1):
        if not line.strip():
            continue
        try:
            question = _read_row(line, known)
        except ValueError as error:
            faults.append(f"{path}:{number} {error}")
        else:
            if question.id in questions:
                faults.append(f"{path}:{number} asks again what an earlier line asks")
            questions[question.id] = question
    if faults or not questions:
        more = f"\n… and {len(faults) - 10} more lines" if len(faults) > 10 else ""
        raise ValueError("\n".join(faults[:10]) + more or f"{path} has no questions")
    return list(questions.values())


def draw_questions(
    questions: Sequence[Question], *, hops: int | None, count: int, seed: int
) -> list[Question]:
    """Return up to `count` of the questions that need `hops` documents, in an order that the seed decides."""
    fitting = [question for question in questions if hops is None or len(question.sources) == hops]
    random.Random(seed).shuffle(fitting)
    return fitting[:count]


def _read_row(line: str, known: Collection[str]) -> Question:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"is not JSON: {error}") from error
    if not isinstance(row, dict):
        raise ValueError(f"is a {type(row).__name__}, not a JSON object")
    text, answer = row.get("question"), row.get("answer", row.get("ground_truth"))
    if not isinstance(text, str) or not text.strip():
        raise ValueError("has no text in 'question'")
    if isinstance(answer, bool) or not isinstance(answer, (str, int, float)) or not str(answer).strip():
        raise ValueError("has no text or number in 'answer'")
    sources = [_known_name(name, known) for name in _names(row)]
    if not sources:
        raise ValueError("names no document in 'sources' or 'reference_chunks'")
    return Question(text=text.strip(), answer=str(answer).strip(), sources=tuple(dict.fromkeys(sources)))


def _names(row: dict[str, Any]) -> list[str]:
    sources = row.get("sources", row.get("source"))
    if sources is not None:
        return [str(name) for name in (sources if isinstance(sources, list) else [sources])]
    chunks = row.get("reference_chunks")
    return sorted(reference_sources(chunks)) if isinstance(chunks, list) else []


def _known_name(name: str, known: Collection[str]) -> str:
    from benchmax.rag import match_source

    found = match_source(name, known)
    if found is not None:
        return found
    close = get_close_matches(name, list(known), n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    raise ValueError(f"names the document {name!r}, which is not in the corpus{hint}")
