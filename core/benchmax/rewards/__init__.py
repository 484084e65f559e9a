"""Building blocks for reward functions."""

from __future__ import annotations

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

__all__ = [
    "Completion",
    "citation_score",
    "clip01",
    "count_search_calls",
    "extract_answer",
    "extract_answer_block",
    "extract_completion_text",
    "is_answer",
    "match_answer",
    "overlap_reward",
    "percent_of_text_a_in_text_b",
    "read_tagged_answer",
    "search_within_budget",
    "tool_call_efficiency",
]
