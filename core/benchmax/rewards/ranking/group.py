"""Score a group of rollouts by rubrics whose judge sees all of its answers at once."""

from __future__ import annotations

from collections.abc import Sequence

from benchmax.rewards.concurrency import gather_or_cancel
from benchmax.rewards.deterministic import Completion, extract_completion_text
from benchmax.rewards.judge import Judge
from benchmax.rewards.ranking.evaluate import RubricRanking, evaluate_rubric_ranking
from benchmax.rewards.rubric import Rubric
from benchmax.rewards.scoring.checks import check_rollout_ids, check_rubric_keys


async def rank_group_rubrics(
    rollout_ids: Sequence[str],
    completions: Sequence[Completion],
    *,
    ground_truth: object,
    question: str,
    judge: Judge,
    rubrics: Sequence[Rubric],
    include_ground_truth: bool = True,
    presentations: int = 1,
) -> list[dict[str, float]]:
    """Return, in the order of the ids, one score in [0, 1] per rubric under the rubric's reward key.

    One ranking per rubric, all at the same time (`presentations` requests each); when
    one fails the others are cancelled, and JudgeError leaves the group unscored.
    `ground_truth` None or blank, or `include_ground_truth` False: the answers are compared with
    each other alone. ValueError: no rubrics, two of the same key, no ids, ids that are blank,
    repeated or not one for each completion, and what `evaluate_rubric_ranking` refuses.
    """
    keys = check_rubric_keys(rubrics)
    check_rollout_ids(rollout_ids, completions)
    responses = [extract_completion_text(completion) for completion in completions]
    reference = ground_truth if include_ground_truth else None

    async def rank(rubric: Rubric) -> RubricRanking:
        return await evaluate_rubric_ranking(
            rubric,
            question=question,
            responses=responses,
            judge=judge,
            ground_truth=reference,
            presentations=presentations,
        )

    rankings = await gather_or_cancel(rank(rubric) for rubric in rubrics)
    return [
        {key: ranking.scores[index] for key, ranking in zip(keys, rankings, strict=True)}
        for index in range(len(responses))
    ]
