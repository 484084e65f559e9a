"""Score one rollout by several rubrics at the same time."""

from __future__ import annotations

from collections.abc import Sequence

from benchmax.envs.shared_types import check_text
from benchmax.rewards.concurrency import gather_or_cancel
from benchmax.rewards.deterministic import Completion, extract_completion_text
from benchmax.rewards.judge import Judge
from benchmax.rewards.rubric import Rubric, evaluate_single_rubric
from benchmax.rewards.scoring.checks import check_rubric_keys


async def score_rubrics(
    rollout_id: str,
    completion: Completion,
    *,
    ground_truth: object,
    rubrics: Sequence[Rubric],
    question: str,
    judge: Judge,
) -> dict[str, float]:
    """Return one reward from 0 to 1 for each rubric, under its reward key.

    An empty completion earns 0.0 by every rubric, the negative ones too, and no judge is
    asked. ValueError: no rubric, or two with the same key. JudgeError: one of the requests
    failed; the others are cancelled.
    """
    check_text("rollout id", rollout_id)
    keys = check_rubric_keys(rubrics)
    response = extract_completion_text(completion)
    rewards = await score_response(
        rollout_id, response, ground_truth=ground_truth, rubrics=rubrics, question=question, judge=judge
    )
    return dict(zip(keys, rewards, strict=True))


async def score_response(
    request_id: str | None,
    response: str,
    *,
    ground_truth: object,
    rubrics: Sequence[Rubric],
    question: str,
    judge: Judge,
) -> list[float]:
    """Return the rewards of one response, one a rubric and in their order."""
    if not response:
        return [0.0] * len(rubrics)

    async def reward(rubric: Rubric) -> float:
        evaluation = await evaluate_single_rubric(
            rubric,
            question=question,
            response=response,
            judge=judge,
            ground_truth=ground_truth,
            request_id=request_id,
        )
        return rubric.reward_for(evaluation.score)

    return await gather_or_cancel(reward(rubric) for rubric in rubrics)
