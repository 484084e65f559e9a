"""A question, a search over the corpus, a short answer with its source."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

from benchmax.envs import (
    BaseEnv,
    BaseRollout,
    Dataset,
    DatasetSplit,
    Example,
    RewardMap,
    ValidationDiagnostic,
)
from benchmax.envs.dataset import validate_max_examples
from benchmax.rag import format_results, search_documents, search_message
from benchmax.rewards import extract_completion_text
from castform_env_search.client import Bm25Search, make_result
from castform_env_search.config import SearchConfig
from castform_env_search.questions import Question, draw_questions, load_questions, read_questions
from castform_env_search.rewards import (
    cited_reward,
    correct_reward,
    format_reward,
    found_reward,
    grounded_reward,
)

SYSTEM = (
    "Search for the answer. Then write it alone, as short as it can be, between <answer> and </answer>, "
    "and behind that its source: [Source: name]."
)
READ = (
    "Answer from the search results. Write the answer alone, as short as it can be, between <answer> and "
    "</answer>, and behind that its source: [Source: name]."
)
SOLVED = Question(text="What is Pelmouth known for?", answer="mustard", sources=("pelmouth",))
"""Shown in front of every question; nothing else is asked about its article."""


@dataclass(frozen=True, slots=True)
class QuestionSet:
    """The questions of both sides."""

    train: tuple[Question, ...]
    eval: tuple[Question, ...]
    left_out: int = 0
    """Questions that need documents of both sides."""


class SearchEnv(BaseEnv):
    """Questions whose answers stand in a corpus, with a tool to search it."""

    reward_weights = MappingProxyType(
        {"correct": 1.0, "grounded": 0.2, "found": 0.2, "cited": 0.2, "format": 0.1}
    )

    def __init__(self, config: SearchConfig) -> None:
        super().__init__(max_turns=config.max_searches + 1, max_tool_calls=config.max_searches)
        self.config = config
        self.client = Bm25Search(None if config.corpus is None else config.corpus.resolve())
        if config.max_searches == 0:
            self.tools = ()

    async def search(
        self,
        query: Annotated[str, "what to look for"],
        limit: Annotated[int | None, "most results"] = None,
    ) -> str:
        """Search the documents. Each result begins with the name of its source."""
        return await search_documents(
            self.client, query, limit=self.config.results if limit is None else limit
        )

    tools: Sequence[Callable[..., object]] = (search,)

    async def create_dataset(
        self, split: DatasetSplit, base_dir: Path, *, max_examples: int | None = None
    ) -> Dataset[Mapping[str, Any]]:
        validate_max_examples(max_examples)
        return make_dataset(self.config, self.client, split, max_examples=max_examples)

    async def compute_reward(self, rollout: BaseRollout) -> RewardMap:
        args = rollout.example_args
        said = messages_after_question(rollout.messages)
        text = extract_completion_text(said)
        return {
            "correct": correct_reward(text, args["ground_truth"]),
            "grounded": grounded_reward(said, given=args["given"]),
            "found": found_reward(said, args["reference_chunks"]),
            "cited": cited_reward(said, args["reference_chunks"], given=args["given"]),
            "format": format_reward(text),
        }

    def gold(self, example: Example[Mapping[str, Any]]) -> str:
        """Return the right answer in its tags."""
        return f"<answer>{example.payload['ground_truth']}</answer>"

    def validation_diagnostics(self) -> Sequence[ValidationDiagnostic]:
        left_out = load_question_set(self.config, self.client).left_out if self.config.questions else 0
        if not left_out:
            return ()
        message = f"{left_out} questions need documents of both sides of the split and are asked on neither"
        return (ValidationDiagnostic("warning", "questions_left_out", message, str(self.config.questions)),)


def make_dataset(
    config: SearchConfig, client: Bm25Search, split: DatasetSplit, *, max_examples: int | None
) -> Dataset[Mapping[str, Any]]:
    """Return the questions of a split as examples. ValueError: what is wrong with a file of the user's."""
    questions = getattr(load_question_set(config, client), split)
    size = config.train_examples if split == "train" else config.eval_examples
    drawn = draw_questions(questions, hops=config.hops, count=size, seed=config.seed)
    shown = solved_messages(config, client) if config.solved_examples and config.corpus is None else []
    return Dataset([make_example(question, config, client, shown) for question in drawn[:max_examples]])


def load_question_set(config: SearchConfig, client: Bm25Search) -> QuestionSet:
    """Return the questions that each side may ask."""
    known = client.load().sources
    if config.questions is None:
        questions = [question for question in load_questions() if SOLVED.sources[0] not in question.sources]
    else:
        questions = read_questions(config.questions, known)
    if config.eval_questions is not None:
        return QuestionSet(tuple(questions), tuple(read_questions(config.eval_questions, known)))
    sides = {side: tuple(q for q in questions if q.side == side) for side in ("train", "eval")}
    return QuestionSet(**sides, left_out=len(questions) - sum(map(len, sides.values())))


def make_example(
    question: Question, config: SearchConfig, client: Bm25Search, shown: Sequence[Mapping[str, Any]]
) -> Example[Mapping[str, Any]]:
    """Return a question as a dataset row; `shown` are the messages of a solved one."""
    given = show_results(client, question.text, config.results) if config.searched else ""
    return Example(
        id=question.id,
        payload={
            "prompt_messages": [
                {"role": "system", "content": READ if config.max_searches == 0 else SYSTEM},
                *shown,
                {"role": "user", "content": f"{question.text}\n\n{given}".strip()},
            ],
            "question": question.text,
            "ground_truth": question.answer,
            "reference_chunks": [{"metadata": {"source_id": source}} for source in question.sources],
            "given": given,
        },
    )


def show_results(client: Bm25Search, query: str, limit: int) -> str:
    """Return what a search for the query says."""
    return format_results(
        make_result(document, score) for document, score in client.load().search(query, limit)
    )


def solved_messages(config: SearchConfig, client: Bm25Search) -> list[dict[str, Any]]:
    """Return a solved question, with its search, about an article that nothing else is asked about."""
    result = show_results(client, SOLVED.text, 1)
    answer = f"<answer>{SOLVED.answer}</answer> [Source: {SOLVED.sources[0]}]"
    if config.searched:
        return [
            {"role": "user", "content": f"{SOLVED.text}\n\n{result}"},
            {"role": "assistant", "content": answer},
        ]
    return [
        {"role": "user", "content": SOLVED.text},
        search_message(SOLVED.text),
        {"role": "tool", "tool_call_id": "call_search", "content": result},
        {"role": "assistant", "content": answer},
    ]


def messages_after_question(messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return what was said after the last question: the solved one before it earns nothing."""
    last = max((place for place, message in enumerate(messages) if message.get("role") == "user"), default=-1)
    return list(messages[last + 1 :])
