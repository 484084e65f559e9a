"""What judges are asked, as text: to read, to keep, to compare.

A judge over HTTP is also given a seal to repeat; see `benchmax.rewards.judge.verdict`.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmax.rewards.adaptive.generate import write_adaptive_prompt
from benchmax.rewards.diversity.config import DEFAULT_DIVERSITY_INSTRUCTIONS
from benchmax.rewards.diversity.reading import write_cluster_prompt
from benchmax.rewards.ranking.presentation import plan_presentations, presentation_seed
from benchmax.rewards.ranking.prompt import write_ranking_prompt
from benchmax.rewards.reference import reference_text
from benchmax.rewards.rubric import Rubric
from benchmax.rewards.rubric.prompt import write_rubric_prompt

__all__ = [
    "build_adaptive_rubric_prompt",
    "build_diversity_prompt",
    "build_rubric_evaluation_prompt",
    "build_rubric_ranking_prompt",
]


def build_rubric_evaluation_prompt(
    rubric: Rubric, *, question: str, response: str, ground_truth: object
) -> str:
    """Return what a judge is asked about one response by one rubric."""
    reference = reference_text(ground_truth)
    return write_rubric_prompt(rubric, question=question, response=response, ground_truth=reference)


def build_rubric_ranking_prompt(rubric: Rubric, *, question: str, responses: Sequence[str]) -> str:
    """Return what a judge is asked about responses, references among them, that it is to rank."""
    [presentation] = plan_presentations(responses, 1, seed=presentation_seed(rubric, question))
    return write_ranking_prompt(rubric, question=question, texts=responses, presentation=presentation)


def build_adaptive_rubric_prompt(
    *, question: str, ground_truth: object, responses: Sequence[str], existing_rubrics: Sequence[Rubric] = ()
) -> str:
    """Return what a judge is asked that is to propose rubrics."""
    return write_adaptive_prompt(
        question=question, ground_truth=ground_truth, responses=responses, existing_rubrics=existing_rubrics
    )


def build_diversity_prompt(
    texts: Sequence[str], *, context: str = "", instructions: str = DEFAULT_DIVERSITY_INSTRUCTIONS
) -> str:
    """Return what a judge is asked that is to sort texts into clusters."""
    return write_cluster_prompt(texts, context=context, instructions=instructions)
