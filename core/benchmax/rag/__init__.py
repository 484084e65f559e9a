"""Questions about a corpus: a search tool, citations, and a judge for the answers."""

from benchmax.rag.embed import DEFAULT_EMBED_MODEL, OpenAIEmbedder
from benchmax.rag.env import RagEnv, render_system_prompt, search_documents, search_message
from benchmax.rag.judging import judge_answer_quality
from benchmax.rag.results import format_results, retrieved_sources
from benchmax.rag.scoring import (
    RagSourceScores,
    score_citation_grounding,
    score_citations,
    score_rag_sources,
    score_retrieval_sources,
    score_search_efficiency,
)
from benchmax.rag.search import SearchClient, SearchResult
from benchmax.rag.sources import match_source, parse_citations

__all__ = [
    "DEFAULT_EMBED_MODEL",
    "OpenAIEmbedder",
    "RagEnv",
    "RagSourceScores",
    "SearchClient",
    "SearchResult",
    "format_results",
    "judge_answer_quality",
    "match_source",
    "parse_citations",
    "render_system_prompt",
    "retrieved_sources",
    "score_citation_grounding",
    "score_citations",
    "score_rag_sources",
    "score_retrieval_sources",
    "score_search_efficiency",
    "search_documents",
    "search_message",
]
