"""What a judge says of an answer: whether it is right, and whether it is to the point."""

from __future__ import annotations

from benchmax.rewards.judge import Judge
from benchmax.rewards.rubric import Rubric
from benchmax.rewards.scoring.single import score_response

CORRECTNESS_RUBRIC = Rubric(
    title="Answer correctness",
    description=(
        "The answer states what the reference answer states. Other words, another order and further true "
        "details are fine. A part that is missing, contradicted, hedged between several possibilities or "
        "only announced is not."
    ),
)
CONCISENESS_RUBRIC = Rubric(
    title="Answer conciseness",
    description=(
        "The answer says what was asked for and little besides: no repetition, no account of how it was found, "
        "no padding."
    ),
)


async def judge_answer_quality(
    *,
    question: str,
    ground_truth: str,
    response: str,
    judge: Judge,
    correctness_rubric: Rubric = CORRECTNESS_RUBRIC,
    conciseness_rubric: Rubric = CONCISENESS_RUBRIC,
    request_id: str | None = None,
) -> tuple[float, float]:
    """Return (correctness, conciseness) of an answer, each from 0 to 1; 0 and 0 for an empty one.

    JudgeError: the judge could not be asked. That is a failed rollout, never a score of zero.
    """
    if not response.strip():
        return 0.0, 0.0
    correctness, conciseness = await score_response(
        request_id,
        response,
        ground_truth=ground_truth,
        rubrics=(correctness_rubric, conciseness_rubric),
        question=question,
        judge=judge,
    )
    return correctness, conciseness


async def judge_correctness(
    *, question: str, ground_truth: str, response: str, judge: Judge, request_id: str | None = None
) -> float:
    """Return 1 when the judge finds the answer right, else 0; 0 for an empty one, without asking.

    JudgeError: the judge could not be asked.
    """
    [correctness] = await score_response(
        request_id,
        response,
        ground_truth=ground_truth,
        rubrics=[CORRECTNESS_RUBRIC],
        question=question,
        judge=judge,
    )
    return correctness
