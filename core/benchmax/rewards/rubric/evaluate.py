"""Let a judge score one answer by one rubric."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmax.rewards.judge import Judge, ask_judge, read_number
from benchmax.rewards.reference import reference_text
from benchmax.rewards.request_ids import make_request_id
from benchmax.rewards.rubric.prompt import write_rubric_prompt
from benchmax.rewards.rubric.rubric import Rubric, rubric_name

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class RubricEvaluation:
    """A judge's score, as it gave it; `Rubric.reward_for` makes a reward of it."""

    score: float
    reasoning: str
    raw_response: str


async def evaluate_single_rubric(
    rubric: Rubric,
    *,
    question: str,
    response: str,
    judge: Judge,
    ground_truth: object = None,
    log_result: bool = True,
    request_id: str | None = None,
) -> RubricEvaluation:
    """Return one of the rubric's allowed scores for the response, with the judge's reasons.

    A `ground_truth` that is no text is shown as `str` writes it, a blank one not at all.
    `request_id` names the request to the key provider; None: one made from the texts.
    JudgeError: the judge gave no such score, or could not be asked.
    """
    if request_id is None:
        request_id = make_request_id(rubric_name(rubric), rubric.description, question, response)
    reference = reference_text(ground_truth)
    (score, reasoning), raw = await ask_judge(
        judge,
        write_rubric_prompt(rubric, question=question, response=response, ground_truth=reference),
        request_id=request_id,
        read=_make_reader(rubric),
        untrusted=[question, response] if reference is None else [question, reference, response],
    )
    if log_result:
        logger.info("benchmax.rubric.scored rubric=%r score=%g reasoning=%r", rubric.title, score, reasoning)
    return RubricEvaluation(score, reasoning, raw)


def _make_reader(rubric: Rubric) -> Callable[[dict[str, Any]], tuple[float, str]]:
    scores = rubric.allowed_scores

    def read(verdict: dict[str, Any]) -> tuple[float, str]:
        score = read_number(verdict, "score", low=scores[0], high=scores[-1])
        rubric.reward_for(score)
        reasoning = verdict.get("reasoning")
        if not isinstance(reasoning, (str, type(None))):
            raise ValueError("'reasoning' must be text")
        return score, reasoning or ""

    return read
