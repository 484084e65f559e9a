"""One question, one reply, two rewards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmax.envs import BaseEnv, BaseRollout, Dataset, DatasetSplit, Example, RewardMap
from benchmax.envs.dataset import validate_max_examples
from benchmax.rewards import extract_completion_text
from castform_env_arith.config import ArithConfig, MixedConfig
from castform_env_arith.questions import (
    DIGIT_SUMS,
    MIXED_LEVELS,
    SMALL_DIFFERENCES,
    SMALL_SUMS,
    TWO_DIGIT_SUMS,
    Kind,
    Question,
    draw_questions,
    solved_examples,
)
from castform_env_arith.rewards import correct_reward, format_reward

SYSTEM = "Answer with the number alone between <answer> and </answer>."


class Arith(BaseEnv):
    """Arithmetic questions of one or several kinds, made on the spot; no file is read."""

    max_turns = 1

    def __init__(self, config: ArithConfig, kinds: Sequence[Kind]) -> None:
        super().__init__()
        self.config = config
        self.kinds = tuple(kinds)

    async def create_dataset(
        self, split: DatasetSplit, base_dir: Path, *, max_examples: int | None = None
    ) -> Dataset[Mapping[str, Any]]:
        validate_max_examples(max_examples)
        config = self.config
        size = config.train_examples if split == "train" else config.eval_examples
        questions = draw_questions(self.kinds, split, count=size, seed=config.seed)
        return Dataset([self._make_example(question) for question in questions[:max_examples]])

    async def compute_reward(self, rollout: BaseRollout) -> RewardMap:
        reply = extract_completion_text(rollout.messages)
        return {
            "format": format_reward(reply),
            "correct": correct_reward(reply, rollout.example_args["ground_truth"]),
        }

    def gold(self, example: Example[Mapping[str, Any]]) -> str:
        """Return the right answer in its tags."""
        return f"<answer>{example.payload['ground_truth']}</answer>"

    def _make_example(self, question: Question) -> Example[Mapping[str, Any]]:
        messages = [{"role": "system", "content": SYSTEM}]
        for solved in solved_examples(question, self.config.solved_examples):
            messages.append({"role": "user", "content": solved.text})
            messages.append({"role": "assistant", "content": f"<answer>{solved.answer}</answer>"})
        messages.append({"role": "user", "content": question.text})
        return Example(
            id=question.id,
            payload={"prompt_messages": messages, "ground_truth": question.answer},
        )


def make_add(config: ArithConfig) -> Arith:
    return Arith(config, [DIGIT_SUMS])


def make_add24(config: ArithConfig) -> Arith:
    return Arith(config, [SMALL_SUMS])


def make_add2(config: ArithConfig) -> Arith:
    return Arith(config, [TWO_DIGIT_SUMS])


def make_subtract(config: ArithConfig) -> Arith:
    return Arith(config, [SMALL_DIFFERENCES])


def make_mixed(config: MixedConfig) -> Arith:
    return Arith(config, MIXED_LEVELS[config.level])
