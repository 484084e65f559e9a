"""What the sources of an answer are worth: found, cited, and cited because they were found."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypedDict

from benchmax.rag.results import extract_source_ids
from benchmax.rag.sources import match_source, parse_citations, reference_sources

SEARCH_EFFICIENCY_DECAY_RATE = 0.2
FREE_CALLS = 2
"""Searches beyond one a reference chunk that cost nothing."""

Canonicalize = Callable[[str], str]
Chunks = Iterable[Mapping[str, Any]]


class RagSourceScores(TypedDict):
    """Shares from 0 to 1."""

    retrieval_hit: float
    """Of the reference sources: those that the searches brought up."""
    citation_recall: float
    """Of the reference sources: those that the answer cites."""
    citation_grounding: float
    """Of the cited sources: those that the searches brought up."""


def score_rag_sources(
    answer_text: str, tool_text: str, reference_chunks: Chunks, *, canonicalize: Canonicalize | None = None
) -> RagSourceScores:
    """Return the three shares of an answer, of what the searches said and of where the truth stands.

    Names mean the documents at hand (`match_source`); with `canonicalize` they are the same
    when that makes the same of them. No references, no citations: 0.
    """
    expected, found, cited = _resolve(answer_text, tool_text, reference_chunks, canonicalize)
    return {
        "retrieval_hit": _share(expected & found, expected),
        "citation_recall": _share(expected & cited, expected),
        "citation_grounding": _share(cited & found, cited),
    }


def score_citations(
    answer_text: str, reference_chunks: Chunks, *, canonicalize: Canonicalize | None = None
) -> tuple[float, float]:
    """Return precision and recall of the answer's `[Source: name]` marks; both 0 without any of either."""
    expected, _, cited = _resolve(answer_text, "", reference_chunks, canonicalize)
    return _share(expected & cited, cited), _share(expected & cited, expected)


def score_retrieval_sources(
    tool_text: str, reference_chunks: Chunks, *, canonicalize: Canonicalize | None = None
) -> float:
    """Return the share of the reference sources that the searches brought up."""
    return score_rag_sources("", tool_text, reference_chunks, canonicalize=canonicalize)["retrieval_hit"]


def score_citation_grounding(
    answer_text: str, tool_text: str, *, canonicalize: Canonicalize | None = None
) -> float:
    """Return the share of the cited sources that the searches brought up."""
    return score_rag_sources(answer_text, tool_text, (), canonicalize=canonicalize)["citation_grounding"]


def score_search_efficiency(
    *,
    calls: int,
    correctness: float,
    reference_chunk_count: int,
    max_search_calls: int,
    weight: float,
    decay_rate: float = SEARCH_EFFICIENCY_DECAY_RATE,
) -> float:
    """Return weight * correctness * exp(-decay_rate * extra), extra being the searches beyond references + 2.

    0 when the correctness is not above 0 or the searches are more than `max_search_calls`.
    ValueError for negative numbers.
    """
    for name, number in (
        ("calls", calls),
        ("reference_chunk_count", reference_chunk_count),
        ("max_search_calls", max_search_calls),
        ("decay_rate", decay_rate),
    ):
        if not number >= 0:
            raise ValueError(f"{name} must not be negative, not {number}")
    if not correctness > 0 or calls > max_search_calls:
        return 0.0
    extra = max(0, calls - (reference_chunk_count + FREE_CALLS))
    return weight * correctness * math.exp(-decay_rate * extra)


def _resolve(
    answer_text: str, tool_text: str, reference_chunks: Chunks, canonicalize: Canonicalize | None
) -> tuple[set[str], set[str], set[str]]:
    """Return the (expected, found, cited) documents, each under one name."""
    expected, found = reference_sources(reference_chunks), extract_source_ids(tool_text)
    cited = parse_citations(answer_text)
    if canonicalize is not None:
        same = canonicalize
        return {same(s) for s in expected}, {same(s) for s in found}, {same(s) for s in cited}
    found = _found_documents(found, expected)
    return expected, found, {match_source(name, expected | found) or name for name in cited}


def _found_documents(found: set[str], expected: set[str]) -> set[str]:
    """Return the found documents, under the expected names where those are clear.

    Of several found names that end alike none is the expected document, unless one is exactly it.
    """
    meant = {name: document for name in found if (document := match_source(name, expected)) is not None}
    alike = Counter(meant.values())

    def is_clear(name: str, document: str) -> bool:
        return name == document or (document not in found and alike[document] == 1)

    clear = {name: document for name, document in meant.items() if is_clear(name, document)}
    return {clear.get(name, name) for name in found}


def _share(part: Collection[str], whole: Collection[str]) -> float:
    return len(part) / len(whole) if whole else 0.0
