"""The same questions with `benchmax.rag.RagEnv`: free answers, and a judge for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmax.auth import InjectedAuth, ModelAuth, ModelRequestContext
from benchmax.envs import Dataset, DatasetSplit, Example, ValidationDiagnostic
from benchmax.envs.dataset import validate_max_examples
from benchmax.rag import RagEnv
from castform_env_search.client import Bm25Search
from castform_env_search.config import JudgedConfig
from castform_env_search.environment import load_question_set
from castform_env_search.questions import draw_questions


class EnvironmentKey:
    """A key that is read from an environment variable at every request, so that no copy of it is kept."""

    def __init__(self, variable: str) -> None:
        self.variable = variable

    async def headers_for_request(self, context: ModelRequestContext) -> Mapping[str, str]:
        """Return the bearer header. RuntimeError: the variable is not set."""
        import os

        key = os.environ.get(self.variable, "").strip()
        if not key:
            raise RuntimeError(f"the judge's key is expected in the environment variable {self.variable}")
        return {"Authorization": f"Bearer {key}"}


class JudgedSearchEnv(RagEnv):
    """Free answers about a corpus, with citations, judged against the right ones."""

    def __init__(self, config: JudgedConfig) -> None:
        self.config = config
        self.client = Bm25Search(None if config.corpus is None else config.corpus.resolve())
        auth: ModelAuth = InjectedAuth("judge")
        if config.judge_key_env is not None:
            auth = EnvironmentKey(config.judge_key_env)
        super().__init__(
            self.client,
            judge_base_url=config.judge_base_url,
            judge_model=config.judge_model,
            judge_auth=auth,
            judge_timeout=config.judge_timeout,
            max_search_calls=config.max_searches,
        )

    async def create_dataset(
        self, split: DatasetSplit, base_dir: Path, *, max_examples: int | None = None
    ) -> Dataset[Any]:
        validate_max_examples(max_examples)
        config = self.config
        questions = getattr(load_question_set(config, self.client), split)
        size = config.train_examples if split == "train" else config.eval_examples
        drawn = draw_questions(questions, hops=config.hops, count=size, seed=config.seed)
        examples = []
        for question in drawn[:max_examples]:
            made = self.row_to_example(
                {
                    "question": question.text,
                    "answer": question.answer,
                    "reference_chunks": [{"metadata": {"source_id": name}} for name in question.sources],
                }
            )
            examples.append(Example(question.id, made.payload))
        return Dataset(examples)

    def validation_diagnostics(self) -> Sequence[ValidationDiagnostic]:
        left_out = load_question_set(self.config, self.client).left_out if self.config.questions else 0
        if not left_out:
            return ()
        message = f"{left_out} questions need documents of both sides of the split and are asked on neither"
        return (ValidationDiagnostic("warning", "questions_left_out", message, str(self.config.questions)),)
