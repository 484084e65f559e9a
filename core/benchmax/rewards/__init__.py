"""Building blocks for reward functions.

What asks a judge is imported on first use: it needs asyncio, and most environments have no judge.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from benchmax.rewards.answers import extract_answer, is_answer, match_answer, read_tagged_answer
from benchmax.rewards.deterministic import (
    Completion,
    citation_score,
    clip01,
    count_search_calls,
    extract_answer_block,
    extract_completion_text,
    overlap_reward,
    percent_of_text_a_in_text_b,
    search_within_budget,
    tool_call_efficiency,
)

if TYPE_CHECKING:
    from benchmax.rewards.adaptive import (
        AdaptiveRubrics,
        RubricCache,
        generate_adaptive_rubrics,
        generate_and_cache_adaptive_rubrics,
    )
    from benchmax.rewards.diversity import (
        ClusterResult,
        DiversityConfig,
        LLMDiversityConfig,
        NgramDiversityConfig,
        cluster_texts,
        scale_by_diversity,
    )
    from benchmax.rewards.judge import Judge, JudgeError, ask_judge, fence, read_number, read_verdict
    from benchmax.rewards.ranking import (
        RankingAnchor,
        RubricRanking,
        evaluate_rubric_ranking,
        rank_group_rubrics,
    )
    from benchmax.rewards.rubric import (
        Rubric,
        RubricEvaluation,
        RubricPolarity,
        evaluate_single_rubric,
        rubric_reward_key,
    )
    from benchmax.rewards.scoring import score_group_rubrics, score_rubrics
    from benchmax.rewards.weighted import WeightedRewards, WeightedScore

_ON_FIRST_USE = {
    "adaptive": (
        "AdaptiveRubrics",
        "RubricCache",
        "generate_adaptive_rubrics",
        "generate_and_cache_adaptive_rubrics",
    ),
    "diversity": (
        "ClusterResult",
        "DiversityConfig",
        "LLMDiversityConfig",
        "NgramDiversityConfig",
        "cluster_texts",
        "scale_by_diversity",
    ),
    "judge": ("Judge", "JudgeError", "ask_judge", "fence", "read_number", "read_verdict"),
    "ranking": ("RankingAnchor", "RubricRanking", "evaluate_rubric_ranking", "rank_group_rubrics"),
    "rubric": ("Rubric", "RubricEvaluation", "RubricPolarity", "evaluate_single_rubric", "rubric_reward_key"),
    "scoring": ("score_group_rubrics", "score_rubrics"),
    "weighted": ("WeightedRewards", "WeightedScore"),
}
_MODULE_OF = {name: module for module, names in _ON_FIRST_USE.items() for name in names}

__all__ = [
    "AdaptiveRubrics",
    "ClusterResult",
    "Completion",
    "DiversityConfig",
    "Judge",
    "JudgeError",
    "LLMDiversityConfig",
    "NgramDiversityConfig",
    "RankingAnchor",
    "Rubric",
    "RubricCache",
    "RubricEvaluation",
    "RubricPolarity",
    "RubricRanking",
    "WeightedRewards",
    "WeightedScore",
    "ask_judge",
    "citation_score",
    "clip01",
    "cluster_texts",
    "count_search_calls",
    "evaluate_rubric_ranking",
    "evaluate_single_rubric",
    "extract_answer",
    "extract_answer_block",
    "extract_completion_text",
    "fence",
    "generate_adaptive_rubrics",
    "generate_and_cache_adaptive_rubrics",
    "is_answer",
    "match_answer",
    "overlap_reward",
    "percent_of_text_a_in_text_b",
    "rank_group_rubrics",
    "read_number",
    "read_tagged_answer",
    "read_verdict",
    "rubric_reward_key",
    "scale_by_diversity",
    "score_group_rubrics",
    "score_rubrics",
    "search_within_budget",
    "tool_call_efficiency",
]


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
