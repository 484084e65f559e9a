"""castform's own rewards, as a composed environment calls them: a completion, then fields of the row."""

from __future__ import annotations

from collections.abc import Sequence

from benchmax.rewards import citation_score, match_answer
from benchmax.rewards.answers.choices import Options
from benchmax.rewards.answers.matching import AnswerKind
from benchmax.rewards.deterministic.completion import Completion


def score_answer(
    completion: str,
    ground_truth: object,
    *,
    options: Options | None = None,
    answer_kind: AnswerKind | None = None,
    ignore_articles: bool = False,
) -> float:
    """Return 1.0 when the final answer is the right one, else 0.0 (`benchmax.rewards.match_answer`)."""
    return match_answer(
        completion, ground_truth, kind=answer_kind, options=options, ignore_articles=ignore_articles
    )


def score_citation_precision(
    completion: Completion,
    reference_chunks: Sequence[object],
    *,
    source_field: str | Sequence[str] = "source_id",
) -> float:
    """Return the share of the `[Source: id]` marks that name a reference chunk's source."""
    return citation_score(completion, reference_chunks, source_field=source_field)["precision"]


def score_citation_recall(
    completion: Completion,
    reference_chunks: Sequence[object],
    *,
    source_field: str | Sequence[str] = "source_id",
) -> float:
    """Return the share of the reference chunks' sources that `[Source: id]` marks name."""
    return citation_score(completion, reference_chunks, source_field=source_field)["recall"]
