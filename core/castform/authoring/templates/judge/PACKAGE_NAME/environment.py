"""Questions whose answer is checked, and whose explanation a judge scores by a rubric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from benchmax.envs import (
    BaseEnv,
    BaseRollout,
    Dataset,
    DatasetSplit,
    Example,
    JsonlDataset,
    JsonRow,
    RewardMap,
    ValidationDiagnostic,
)
from benchmax.rewards import extract_completion_text, match_answer
from benchmax.rewards.judge import Judge
from benchmax.rewards.rubric import Rubric, rubric_reward_key
from benchmax.rewards.scoring import score_rubrics

from PACKAGE_NAME.config import ExplainConfig, make_judge

DATA = files("PACKAGE_NAME") / "data"
"""Inside the package, so that it is in the wheel."""
SYSTEM = "Explain in one sentence, then give the number alone between <answer> and </answer>."
STEPS = Rubric(
    "Shows its steps",
    "The sentence says which quantities are multiplied or divided, so that a reader can check the number.",
)


class Explain(BaseEnv):
    """Asks for a number and how one gets there.

    The number is compared, which costs nothing and cannot be talked into anything. The
    judge is asked about right replies alone: a wrong one earns nothing for its words.
    """

    max_turns = 1

    def __init__(self, judge: Judge | None) -> None:
        super().__init__()
        self.judge = judge

    async def create_dataset(
        self, split: DatasetSplit, base_dir: Path, *, max_examples: int | None = None
    ) -> Dataset[Mapping[str, Any]]:
        with as_file(DATA / f"{split}.jsonl") as path:
            return JsonlDataset(
                path, row_to_example=make_example, max_examples=max_examples
            )

    async def compute_reward(self, rollout: BaseRollout) -> RewardMap:
        row = rollout.example_args
        reply = extract_completion_text(rollout.messages)
        correct = match_answer(reply, row["ground_truth"])
        if self.judge is None:
            return {"correct": correct}
        if not correct:
            return {"correct": 0.0, rubric_reward_key(STEPS): 0.0}
        judged = await score_rubrics(
            rollout.rollout_id,
            reply,
            ground_truth=row["explanation"],
            rubrics=[STEPS],
            question=row["question"],
            judge=self.judge,
        )
        return {"correct": correct, **judged}

    def gold(self, example: Example[Mapping[str, Any]]) -> str:
        """Return a reply that must be paid in full: checks play it, and wrong ones beside it."""
        row = example.payload
        return f"{row['explanation']} <answer>{row['ground_truth']}</answer>"

    def validation_diagnostics(self) -> Sequence[ValidationDiagnostic]:
        """Say it where nobody judges: `castform validate` and `env certify` show it."""
        if self.judge is not None:
            return ()
        return [
            ValidationDiagnostic(
                severity="warning",
                code="no_judge",
                message="judge_base_url is not set, so explanations are not scored and only the number is",
            )
        ]

    async def aclose(self) -> None:
        await super().aclose()
        if self.judge is not None:
            await self.judge.aclose()


def make_example(row: JsonRow) -> Example[Mapping[str, Any]]:
    """Return a row as the model sees it; what is not in `prompt_messages` only the reward sees."""
    return Example(
        id=row["id"],
        payload={
            "prompt_messages": [
                {"role": "system", "content": SYSTEM},
                {"role": "user", "content": row["question"]},
            ],
            "question": row["question"],
            "ground_truth": row["answer"],
            "explanation": row["explanation"],
        },
    )


def make_environment(config: ExplainConfig) -> Explain:
    return Explain(make_judge(config))
