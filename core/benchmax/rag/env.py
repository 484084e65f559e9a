"""Answer questions out of a corpus: search, then answer with citations, judged against a reference."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmax.auth import InjectedAuth, ModelAuth
from benchmax.envs import (
    BaseEnv,
    BaseRollout,
    Dataset,
    DatasetSplit,
    Example,
    JsonlDataset,
    JsonRow,
    Messages,
    RolloutFailure,
    Tool,
    canonical_example_id,
)
from benchmax.envs.base import resolve_dataset_path
from benchmax.rag.judging import (
    CONCISENESS_RUBRIC,
    CORRECTNESS_RUBRIC,
    judge_answer_quality,
    judge_correctness,
)
from benchmax.rag.results import SEARCH_TOOL, extract_source_ids, format_results, search_text
from benchmax.rag.scoring import (
    RagSourceScores,
    score_citation_grounding,
    score_citations,
    score_rag_sources,
    score_retrieval_sources,
    score_search_efficiency,
)
from benchmax.rag.search import SearchClient, choose_mode
from benchmax.rag.sources import (
    canonicalize_source_id,
    canonicalize_source_id_loose,
    parse_citations,
    reference_sources,
)
from benchmax.rewards import clip01, extract_completion_text
from benchmax.rewards.answers.reading import last_block, without_thinking
from benchmax.rewards.judge import Judge

__all__ = [
    "CONCISENESS_RUBRIC",
    "CORRECTNESS_RUBRIC",
    "RagEnv",
    "RagSourceScores",
    "canonicalize_source_id",
    "canonicalize_source_id_loose",
    "extract_answer_block",
    "extract_source_ids",
    "judge_answer_quality",
    "parse_citations",
    "render_system_prompt",
    "score_citation_grounding",
    "score_citations",
    "score_rag_sources",
    "score_retrieval_sources",
    "score_search_efficiency",
]

ANSWER_LENGTH_CAP = 600
"""Characters from which on an answer earns nothing for being short."""
DEFAULT_LIMIT = 10
MAX_LIMIT = 50
OPENING = "<answer>"

SYSTEM_PROMPT = """You answer questions about {corpus_description}. Look the facts up with the search tool, at most {max_search_calls} times; do not answer from memory.

Then write the answer between <answer> and </answer>, as short as it can be and complete. Behind every fact cite where you found it as [Source: name], with the name that the search result gives its source."""


def render_system_prompt(*, corpus_description: str, max_search_calls: int) -> str:
    """Return the system prompt that asks for what `RagEnv` pays."""
    return SYSTEM_PROMPT.format(corpus_description=corpus_description, max_search_calls=max_search_calls)


def extract_answer_block(text: str | None) -> str:
    """Return the inside of the last closed `<answer>` block, else what follows the last opening tag, else "".

    Tags in any case; what stands in `<think>` does not count. Unlike `benchmax.rewards.extract_answer_block`
    a text without tags has no answer.
    """
    shown = without_thinking(text or "")
    block = last_block(shown)
    if block is not None:
        return block
    start = shown.lower().rfind(OPENING)
    return "" if start < 0 else shown[start + len(OPENING) :].strip()


class RagEnv(BaseEnv):
    """Questions about a corpus, one tool to search it, and a judge for the answers.

    Rows of `train.jsonl` and `eval.jsonl` have `question` (text), `answer` and
    `reference_chunks`, whose metadata names the document (`file` or `file_path`). The
    components of the reward, each times its weight: `retrieval_hit`, the share of those
    documents that the searches brought up; while that is 0 so is all else, and no judge is asked.
    `answer_correctness`, the judge's word. Times the correctness: `citation_recall`,
    `citation_grounding` (cited and found, of what is cited) and `answer_length`. A reply without
    `<answer>` earns nothing. A judge or a search that is out of order is a failed rollout.
    """

    system_prompt: str | None = None
    """None: `render_system_prompt`. An empty one: none at all."""

    def __init__(
        self,
        search: SearchClient,
        *,
        judge_base_url: str,
        judge_model: str,
        judge_auth: ModelAuth = InjectedAuth("judge"),  # noqa: B008 - a frozen name, no key
        judge_timeout: float = 30.0,
        w_correctness: float = 1.0,
        w_retrieval_hit: float = 0.3,
        w_citation_recall: float = 0.3,
        w_citation_grounding: float = 0.2,
        w_length: float = 0.2,
        max_search_calls: int = 10,
        max_turns: int | None = None,
        system_prompt: str | None = None,
    ) -> None:
        if (
            isinstance(max_search_calls, bool)
            or not isinstance(max_search_calls, int)
            or max_search_calls < 1
        ):
            raise ValueError(f"max_search_calls must be a positive integer, not {max_search_calls!r}")
        super().__init__(
            max_turns=max_search_calls + 1 if max_turns is None else max_turns,
            max_tool_calls=max_search_calls,
        )
        self.search = search
        self.judge = Judge(judge_model, judge_base_url, judge_auth, timeout=judge_timeout)
        self.weights = {
            "answer_correctness": w_correctness,
            "retrieval_hit": w_retrieval_hit,
            "citation_recall": w_citation_recall,
            "citation_grounding": w_citation_grounding,
            "answer_length": w_length,
        }
        self.max_search_calls = max_search_calls
        if system_prompt is not None:
            self.system_prompt = system_prompt

    @classmethod
    def render_system_prompt(cls, *, corpus_description: str, max_search_calls: int) -> str:
        """Return the system prompt that asks for what is paid here."""
        return render_system_prompt(corpus_description=corpus_description, max_search_calls=max_search_calls)

    async def create_dataset(
        self, split: DatasetSplit, base_dir: Path, *, max_examples: int | None = None
    ) -> Dataset[Any]:
        path = resolve_dataset_path(base_dir, f"{split}.jsonl")
        return JsonlDataset(path, row_to_example=self.row_to_example, max_examples=max_examples)

    def row_to_example(self, row: JsonRow) -> Example[JsonRow]:
        """Return a row as an example. TypeError: its question is no text, or its chunks are no list."""
        question, chunks = row.get("question"), row.get("reference_chunks") or []
        if not isinstance(question, str) or not question.strip():
            raise TypeError(f"'question' must be a text, not {question!r:.80}")
        if not isinstance(chunks, list):
            raise TypeError(f"'reference_chunks' must be a list, not {type(chunks).__name__}")
        prompt = self.system_prompt
        if prompt is None:
            prompt = self.render_system_prompt(
                corpus_description="a collection of documents", max_search_calls=self.max_search_calls
            )
        messages = [{"role": "system", "content": prompt}] if prompt else []
        payload = {
            "prompt_messages": [*messages, {"role": "user", "content": question}],
            "question": question,
            "ground_truth": row.get("answer"),
            "reference_chunks": chunks,
        }
        return Example(canonical_example_id(dict(row)), payload)

    async def list_tools(self) -> Sequence[Tool]:
        modes = list(self.search.available_modes)
        properties: dict[str, Any] = {
            "query": {"type": "string", "description": "what to look for"},
            "limit": {
                "type": "integer",
                "description": f"most results, {DEFAULT_LIMIT} unless given",
                "minimum": 1,
                "maximum": MAX_LIMIT,
            },
        }
        if len(modes) > 1:
            properties["mode"] = {
                "type": "string",
                "enum": modes,
                "description": f"{choose_mode(modes)} unless given",
            }
        return [
            {
                "type": "function",
                "function": {
                    "name": SEARCH_TOOL,
                    "description": "Search the documents. Each result begins with the name of its source.",
                    "parameters": {"type": "object", "properties": properties, "required": ["query"]},
                },
            }
        ]

    async def run_tool(self, rollout_id: str, tool_name: str, /, **arguments: Any) -> object:
        if tool_name != SEARCH_TOOL:
            return await super().run_tool(rollout_id, tool_name, **arguments)
        return await search_documents(self.search, **arguments)

    async def compute_reward(self, rollout: BaseRollout) -> Mapping[str, float]:
        answer = extract_answer_block(extract_completion_text(rollout.messages))
        if not answer:
            return dict.fromkeys(self.weights, 0.0)
        args = rollout.example_args
        chunks = args.get("reference_chunks") or []
        sources = score_rag_sources(answer, self.tool_text(rollout.messages), chunks)
        if reference_sources(chunks) and not sources["retrieval_hit"]:
            return dict.fromkeys(self.weights, 0.0)
        correctness = await judge_correctness(
            question=args["question"],
            ground_truth=args["ground_truth"],
            response=answer,
            judge=self.judge,
            request_id=rollout.rollout_id,
        )
        shares = {
            "answer_correctness": correctness,
            "retrieval_hit": sources["retrieval_hit"],
            "citation_recall": sources["citation_recall"] * correctness,
            "citation_grounding": sources["citation_grounding"] * correctness,
            "answer_length": clip01(1 - len(answer) / ANSWER_LENGTH_CAP) * correctness,
        }
        return {name: self.weights[name] * share for name, share in shares.items()}

    def tool_text(self, messages: Messages) -> str:
        """Return what the searches of a transcript said."""
        return search_text(messages)

    def gold(self, example: Example[Any]) -> list[dict[str, Any]] | None:
        """Return a search for the question and the right answer with its citations, as a model would say them."""
        payload = example.payload
        if payload["ground_truth"] is None:
            return None
        cited = "".join(
            f" [Source: {name}]" for name in sorted(reference_sources(payload["reference_chunks"]))
        )
        return [
            search_message(payload["question"]),
            {"role": "assistant", "content": f"<answer>{payload['ground_truth']}{cited}</answer>"},
        ]

    async def aclose(self) -> None:
        try:
            await self.judge.aclose()
        finally:
            await super().aclose()


def search_message(query: str) -> dict[str, Any]:
    """Return the assistant message that searches for a text."""
    call = {"name": SEARCH_TOOL, "arguments": json.dumps({"query": query}, ensure_ascii=False)}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "call_search", "type": "function", "function": call}],
    }


async def search_documents(
    search: SearchClient, query: str, limit: int = DEFAULT_LIMIT, mode: str | None = None
) -> str:
    """Search for a model and return what it is told; its own mistakes are answered in words.

    RolloutFailure `tool_error`: the search is out of order, which no score may hide.
    """
    modes = list(search.available_modes)
    if not query.strip():
        return "The query is empty: say what to look for."
    if not 1 <= limit <= MAX_LIMIT:
        return f"limit must be between 1 and {MAX_LIMIT}, not {limit!r:.20}."
    if mode is not None and mode not in modes:
        return f"There is no mode {mode!r:.40}; there are {', '.join(modes) or 'none'}."
    try:
        found = await search.search(query, mode=mode or choose_mode(modes), top_k=int(limit))
    except RolloutFailure:
        raise
    except (TypeError, ValueError) as error:
        return f"The search did not accept this: {error!r:.300}."
    except Exception as error:  # the search backend's code: an outage costs this rollout alone
        raise RolloutFailure("tool_error", f"search: {type(error).__name__}: {error}") from error
    try:
        return format_results(list(found)[: int(limit)])
    except TypeError as error:
        raise RolloutFailure("tool_error", f"search: {error}") from error
