"""Find new rubrics for a group, try them on its answers, and keep those that tell them apart."""

from __future__ import annotations

from collections.abc import Sequence

from benchmax.rewards.adaptive.cache import RubricCache
from benchmax.rewards.adaptive.generate import generate_adaptive_rubrics
from benchmax.rewards.adaptive.rubrics import AdaptiveRubrics
from benchmax.rewards.concurrency import gather_or_cancel
from benchmax.rewards.judge import Judge
from benchmax.rewards.rubric import Rubric, evaluate_single_rubric


async def generate_and_cache_adaptive_rubrics(
    *,
    question: str,
    ground_truth: object,
    responses: Sequence[str],
    judge: Judge,
    existing_rubrics: Sequence[Rubric] = (),
    cache: RubricCache | None = None,
) -> AdaptiveRubrics:
    """Return the rubrics to score this group with: the best of what is cached and what is new.

    The new ones are scored on every non-empty answer, one request each, at the same
    time; the cache changes only when all of that has worked. Fewer than two non-empty
    answers cannot be told apart: then the cache's rubrics come back without a request.

    `cache` None: the rubrics of this group alone, remembered by nobody. Give a cache
    that lives as long as the environment to go on from the rubrics found before.
    JudgeError: a request failed; the other ones are cancelled.
    """
    if cache is None:
        cache = RubricCache()
    answers = [response for response in responses if response.strip()]
    if len(answers) < 2:
        return cache.get(question)
    new = await generate_adaptive_rubrics(
        question=question,
        ground_truth=ground_truth,
        responses=answers,
        judge=judge,
        existing_rubrics=[*existing_rubrics, *cache.get(question).all],
    )

    async def score(rubric: Rubric, answer: str) -> float:
        evaluation = await evaluate_single_rubric(
            rubric, question=question, response=answer, judge=judge, ground_truth=ground_truth
        )
        return rubric.reward_for(evaluation.score)

    scores = await gather_or_cancel(score(rubric, answer) for rubric in new.all for answer in answers)
    for number, rubric in enumerate(new.all):
        cache.consider(question, rubric, scores[number * len(answers) : (number + 1) * len(answers)])
    return cache.get(question)
