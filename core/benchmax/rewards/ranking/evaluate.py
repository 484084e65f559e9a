"""Score the answers of a group by letting a judge rank them against each other."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from benchmax.rewards.concurrency import gather_or_cancel
from benchmax.rewards.judge import Judge, ask_judge
from benchmax.rewards.ranking.anchors import RankingAnchor, check_anchor_order
from benchmax.rewards.ranking.positions import Ranking, average_rankings
from benchmax.rewards.ranking.presentation import Presentation, plan_presentations, presentation_seed
from benchmax.rewards.ranking.prompt import write_ranking_prompt
from benchmax.rewards.ranking.scores import (
    score_against_anchors,
    score_against_ground_truth,
    score_among_siblings,
)
from benchmax.rewards.ranking.verdict import make_ranking_reader
from benchmax.rewards.reference import reference_text
from benchmax.rewards.request_ids import make_request_id
from benchmax.rewards.rubric import Rubric

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class RubricRanking:
    """How a group's answers did against each other by one rubric."""

    scores: tuple[float, ...]
    """One a response, in [0, 1] and in their order; an empty response has 0.0."""
    ranking: Ranking = ()
    """Tiers, best first, of indices into the judged list: the non-empty responses, then
    the ground truth, then the anchors. Empty when all responses are."""
    reasoning: str = ""
    raw_response: str = ""
    """The judge's reply; several are joined by a blank line."""


async def evaluate_rubric_ranking(
    rubric: Rubric,
    *,
    question: str,
    responses: Sequence[str],
    judge: Judge,
    ground_truth: object = None,
    anchors: Sequence[RankingAnchor] = (),
    below_ground_truth_ceiling: float = 0.3,
    presentations: int = 1,
    log_result: bool = True,
) -> RubricRanking:
    """Return a score per response from the judge's ranking of all of them, best first.

    Empty responses score 0.0 and are not shown; a single other one, with nothing to
    compare it to, scores 1.0, both without a request. Without a reference, scores go
    evenly from 1.0 (best) to 0.0 (worst), ties share the mean. A `ground_truth` is
    ranked along: as good as it is 0.5, worse is at most `below_ground_truth_ceiling`
    (0 to 1; above 0.5 it pays worse ones more than a tie). `anchors`, worst first, are ranked along too: at one of them a response
    has its score, between two of them a score between theirs.

    `presentations` is the number of requests. One shows the responses in an order drawn
    from their texts. With 2 the second shows everything backwards, and the scores come
    from the mean positions: what the judge gives to a place or a number cancels out.

    A ground truth that is no text is shown as `str` writes it; a blank one is none.

    ValueError: ground truth and anchors at once, anchors not in order, numbers out of
    range. JudgeError: a reply does not rank every entry once.
    """
    truth = reference_text(ground_truth)
    _check_options(truth, anchors, below_ground_truth_ceiling, presentations)
    answers = [index for index, response in enumerate(responses) if response.strip()]
    references = [anchor.response for anchor in anchors] if truth is None else [truth]
    texts = [responses[index] for index in answers] + references
    if not answers or len(texts) == 1:
        scores = tuple(float(bool(response.strip())) for response in responses)
        return RubricRanking(scores, ranking=((0,),) if answers else ())

    async def ask(presentation: Presentation) -> tuple[Ranking, str, str]:
        prompt = write_ranking_prompt(rubric, question=question, texts=texts, presentation=presentation)
        verdict, raw = await ask_judge(
            judge,
            prompt,
            request_id=make_request_id("ranking", prompt),
            read=make_ranking_reader(len(texts)),
            untrusted=[question, *texts],
        )
        return presentation.to_entries(verdict.ranking), verdict.reasoning, raw

    plan = plan_presentations(texts, presentations, seed=presentation_seed(rubric, question))
    replies = await gather_or_cancel(ask(presentation) for presentation in plan)
    ranking, positions = average_rankings([entries for entries, _, _ in replies])
    if truth is not None:
        earned = score_against_ground_truth(positions, below_ground_truth_ceiling=below_ground_truth_ceiling)
    elif anchors:
        earned = score_against_anchors(positions, anchors)
    else:
        earned = score_among_siblings(positions)
    by_response = dict(zip(answers, earned, strict=True))
    result = RubricRanking(
        scores=tuple(float(by_response.get(index, 0.0)) for index in range(len(responses))),
        ranking=ranking,
        reasoning="\n\n".join(reasoning for _, reasoning, _ in replies if reasoning),
        raw_response="\n\n".join(raw for _, _, raw in replies),
    )
    if log_result:
        logger.info(
            "benchmax.rubric.ranked rubric=%r scores=%s ranking=%s", rubric.title, result.scores, ranking
        )
    return result


def _check_options(
    ground_truth: str | None, anchors: Sequence[RankingAnchor], ceiling: float, presentations: int
) -> None:
    if ground_truth is not None and anchors:
        raise ValueError("give a ground truth or anchors, not both")
    check_anchor_order(anchors)
    if not 0 <= ceiling <= 1:
        raise ValueError(f"below_ground_truth_ceiling must be in [0, 1], not {ceiling}")
    if isinstance(presentations, bool) or not isinstance(presentations, int) or presentations < 1:
        raise ValueError(f"presentations must be an integer of at least 1, not {presentations!r}")
