"""Score the rollouts of a group by the same rubrics, and by rubrics found for this group."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from benchmax.rewards.concurrency import gather_or_cancel
from benchmax.rewards.deterministic import Completion, extract_completion_text
from benchmax.rewards.judge import Judge
from benchmax.rewards.rubric import Rubric
from benchmax.rewards.scoring.checks import ADAPTIVE_KEY, check_rollout_ids, check_rubric_keys
from benchmax.rewards.scoring.single import score_response

if TYPE_CHECKING:
    from benchmax.rewards.adaptive import RubricCache


async def score_group_rubrics(
    rollout_ids: Sequence[str],
    completions: Sequence[Completion],
    *,
    ground_truth: object,
    question: str,
    judge: Judge,
    rubrics: Sequence[Rubric] = (),
    use_adaptive: bool = False,
    existing_rubrics: Sequence[Rubric] = (),
    cache: RubricCache | None = None,
) -> list[dict[str, float]]:
    """Return the rewards of each rollout, in the order of the ids, all judged at the same time.

    `rubrics` earn what `score_rubrics` says. With `use_adaptive` rubrics are also found
    for this group, unlike the `existing_rubrics`, kept in `cache` from one call to the
    next for as long as they tell answers apart, and earn one reward together,
    `rubric_adaptive`: their mean, 0.0 when there are none. ValueError: no ids, ids that are
    blank, repeated or not one for each completion; no rubric of either kind; two of one
    key, that of the adaptive ones included. JudgeError: a request failed; the others are
    cancelled and no rollout is scored.
    """
    check_rollout_ids(rollout_ids, completions)
    keys = _check_static_keys(rubrics, use_adaptive=use_adaptive)
    responses = [extract_completion_text(completion) for completion in completions]
    adaptive: Sequence[Rubric] = ()
    if use_adaptive:
        from benchmax.rewards.adaptive import generate_and_cache_adaptive_rubrics

        found = await generate_and_cache_adaptive_rubrics(
            question=question,
            ground_truth=ground_truth,
            responses=responses,
            judge=judge,
            existing_rubrics=[*rubrics, *existing_rubrics],
            cache=cache,
        )
        adaptive = found.all
    rewards = await gather_or_cancel(
        score_response(
            rollout_id,
            response,
            ground_truth=ground_truth,
            rubrics=[*rubrics, *adaptive],
            question=question,
            judge=judge,
        )
        for rollout_id, response in zip(rollout_ids, responses, strict=True)
    )
    if cache is not None:
        answered = [row[len(keys) :] for row, response in zip(rewards, responses, strict=True) if response]
        for rubric, scores in zip(adaptive, zip(*answered, strict=True), strict=False):
            cache.consider(question, rubric, scores)  # what all answers have come to meet makes room
    scored = [dict(zip(keys, row, strict=False)) for row in rewards]
    if use_adaptive:
        for components, row in zip(scored, rewards, strict=True):
            components[ADAPTIVE_KEY] = fmean(row[len(keys) :]) if adaptive else 0.0
    return scored


def _check_static_keys(rubrics: Sequence[Rubric], *, use_adaptive: bool) -> list[str]:
    """Return the reward keys of the fixed rubrics; there may be none when adaptive ones are to be found."""
    if not use_adaptive:
        return check_rubric_keys(rubrics)
    return check_rubric_keys(rubrics, reserved=[ADAPTIVE_KEY]) if rubrics else []
