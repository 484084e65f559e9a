"""A dataset of reasoning-gym as an environment: its questions, and its own scorer for the answers."""

from __future__ import annotations

import decimal
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from benchmax.envs import BaseEnv, BaseRollout, Dataset, DatasetSplit, Example, RewardMap
from benchmax.envs.dataset import validate_max_examples
from benchmax.rewards import extract_completion_text
from benchmax.rewards.answers import read_tagged_answer
from castform_env_gym.config import GymConfig
from castform_env_gym.curricula import find_options
from castform_env_gym.draws import Draws, Entry
from castform_env_gym.entries import pack, unpack
from castform_env_gym.names import NO_GOLD

IN_TAGS = (
    "Answer the question. Put the final answer, and nothing else, between <answer> and </answer>, "
    "in the form that the question asks for."
)
AS_TEXT = "Answer the question. Reply with the answer alone, in the form that the question asks for."


class Gym(BaseEnv):
    """One question, one reply, one reward: what the dataset's `score_answer` says of the answer.

    What the scorer raises is a `reward_error`, as in any environment. ValueError for options
    that the dataset does not take.
    """

    max_turns = 1

    def __init__(self, dataset: str, config: GymConfig) -> None:
        super().__init__()
        self.dataset = dataset
        self.config = config
        if config.solved_examples and dataset in NO_GOLD:
            raise ValueError(
                f"{dataset} gives no right answers, so there is none to show: solved_examples = 0"
            )
        self._options = {**find_level_options(dataset, config), **config.options}
        self._scorer = self._make_dataset(0, 1)
        self._draws: Draws | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Leave the questions out that were drawn: another process draws the same."""
        return {**self.__dict__, "_draws": None}

    async def create_dataset(
        self, split: DatasetSplit, base_dir: Path, *, max_examples: int | None = None
    ) -> Dataset[Mapping[str, Any]]:
        validate_max_examples(max_examples)
        size = self.config.train_examples if split == "train" else self.config.eval_examples
        if self._draws is None:
            self._draws = Draws(self._make_dataset, seed=self.config.seed)
        size = size if max_examples is None else min(size, max_examples)
        solved = self.config.solved_examples
        shown = list(self._draws.take("train", solved).values())
        entries = self._draws.take(split, size + solved if split == "train" else size)
        asked = list(entries.items())[solved if split == "train" else 0 :]
        messages = [message for entry in shown for message in self._solve(entry)]
        return Dataset([self._make_example(id, entry, messages) for id, entry in asked])

    async def compute_reward(self, rollout: BaseRollout) -> RewardMap:
        answer: str | None = extract_completion_text(rollout.messages)
        if self.config.answer == "tags":
            answer = read_tagged_answer(answer or "")
        if answer is None:
            return {"correct": 0.0}
        with decimal.localcontext():
            return {"correct": self._scorer.score_answer(answer, unpack(rollout.example_args["entry"]))}

    def gold(self, example: Example[Mapping[str, Any]]) -> str | None:
        """Return the right answer without its tags; None where the dataset gives none."""
        answer: str | None = example.payload["entry"]["answer"]
        return answer

    def _solve(self, entry: Entry) -> list[dict[str, str]]:
        answer = (
            f"<answer>{entry['answer']}</answer>" if self.config.answer == "tags" else str(entry["answer"])
        )
        return [
            {"role": "user", "content": entry["question"]},
            {"role": "assistant", "content": answer},
        ]

    def _make_example(
        self, id: str, entry: Entry, shown: Sequence[Mapping[str, str]]
    ) -> Example[Mapping[str, Any]]:
        system = IN_TAGS if self.config.answer == "tags" else AS_TEXT
        return Example(
            id=id,
            payload={
                "prompt_messages": [
                    {"role": "system", "content": system},
                    *shown,
                    {"role": "user", "content": entry["question"]},
                ],
                "entry": pack(entry),
                "source": _source(),
            },
        )

    def _make_dataset(self, seed: int, size: int) -> Any:  # reasoning-gym is not typed
        import reasoning_gym

        try:
            return reasoning_gym.create_dataset(self.dataset, seed=seed, size=size, **self._options)
        except (AssertionError, TypeError, ValueError) as error:
            if not self._options:
                raise
            given = "" if self.config.level is None else f", which level {self.config.level} has given it"
            raise ValueError(
                f"{self.dataset} of {_source()} does not take the options {self._options}{given}: {error}"
            ) from error


def find_level_options(dataset: str, config: GymConfig) -> dict[str, Any]:
    """Return the options that the configured level stands for; none without one. ValueError: no such level."""
    if config.level is None:
        return {}
    return find_options(dataset, config.level, config.curriculum)


@cache  # reading a distribution's metadata takes as long as making a question
def _source() -> str:
    """Return the package and version that made an entry and scores it: another one scores otherwise."""
    from importlib.metadata import version

    return f"reasoning-gym {version('reasoning-gym')}"
