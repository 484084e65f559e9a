"""Rewards that need no model: text, answers, citations, tool calls."""

from __future__ import annotations

from benchmax.rewards.answers import match_answer
from benchmax.rewards.deterministic.citations import citation_score
from benchmax.rewards.deterministic.completion import (
    Completion,
    extract_answer_block,
    extract_completion_text,
)
from benchmax.rewards.deterministic.overlap import clip01, overlap_reward, percent_of_text_a_in_text_b
from benchmax.rewards.deterministic.tool_calls import (
    count_search_calls,
    search_within_budget,
    tool_call_efficiency,
)

__all__ = [
    "Completion",
    "citation_score",
    "clip01",
    "count_search_calls",
    "extract_answer_block",
    "extract_completion_text",
    "match_answer",
    "overlap_reward",
    "percent_of_text_a_in_text_b",
    "search_within_budget",
    "tool_call_efficiency",
]
