"""What is paid: the right answer in its tags, one that was found at all, and the documents found and cited.

They are read off the transcript, so they work in any environment that has the search tool.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from benchmax.rag import score_rag_sources
from benchmax.rag.results import INDENT, search_text
from benchmax.rag.scoring import score_citations
from benchmax.rewards import extract_answer, extract_completion_text, match_answer, read_tagged_answer
from benchmax.rewards.answers.plain import plain_words
from castform_env_search.index import cut_words

Messages = Sequence[Mapping[str, Any]]
Chunks = Sequence[Mapping[str, Any]]
_WORD = re.compile(r"\w+")
_NUMBER = re.compile(r"[+-]?\d[\d,]*(\.\d+)?")
ANSWER_CHARACTERS = 200
"""Longer than any answer in a few words: what is longer is not read."""


def correct_reward(text: str, ground_truth: str | int | float) -> float:
    """Return 1 when the one pair of <answer> tags holds the right answer and nothing else, else 0.

    Numbers count by value; words in any case, without a leading article.
    """
    answer = read_tagged_answer(text)
    if answer is None or len(answer) > ANSWER_CHARACTERS:
        return 0.0
    gold = str(ground_truth)
    if not _NUMBER.fullmatch(gold):
        return match_answer(answer, gold, kind="text", ignore_articles=True)
    said = plain_words(extract_answer(answer) or "")
    return float(_NUMBER.fullmatch(said) is not None and _value(said) == _value(gold))


def _value(number: str) -> float:
    return float(number.replace(",", ""))


def format_reward(text: str) -> float:
    """Return 1 for one pair of <answer> tags with a few words in it, else 0."""
    answer = read_tagged_answer(text)
    return 1.0 if answer is not None and len(answer) <= ANSWER_CHARACTERS else 0.0


def grounded_reward(messages: Messages, *, given: str = "") -> float:
    """Return 1 when the answer in the tags stands word for word in a document that was found, else 0.

    Words that are in every text are no answer. `given` are the results that came with the question.
    """
    answer = read_tagged_answer(extract_completion_text(messages))
    if answer is None or len(answer) > ANSWER_CHARACTERS or not cut_words(answer):
        return 0.0
    lines = f"{given}\n{search_text(messages)}".splitlines()
    shown = " ".join(_WORD.findall(" ".join(line for line in lines if line.startswith(INDENT)).casefold()))
    return 1.0 if f" {' '.join(_WORD.findall(answer.casefold()))} " in f" {shown} " else 0.0


def found_reward(messages: Messages, reference_chunks: Chunks) -> float:
    """Return the share of the reference documents that the searches brought up."""
    return score_rag_sources("", search_text(messages), reference_chunks)["retrieval_hit"]


def cited_reward(messages: Messages, reference_chunks: Chunks, *, given: str = "") -> float:
    """Return the F1 of the last message's `[Source: id]` citations; 0 if one of them was never found.

    Citing everything that a search brings up costs precision, citing from memory costs all.
    `given` are the results that came with the question.
    """
    text = extract_completion_text(messages)
    shares = score_rag_sources(text, f"{given}\n{search_text(messages)}", reference_chunks)
    if shares["citation_grounding"] < 1.0:
        return 0.0
    precision, recall = score_citations(text, reference_chunks)
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0
