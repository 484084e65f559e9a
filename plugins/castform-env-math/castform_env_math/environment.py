"""One problem, one reply, two rewards."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmax.envs import BaseEnv, BaseRollout, Dataset, DatasetSplit, Example, RewardMap
from benchmax.envs.dataset import validate_max_examples
from benchmax.rewards import extract_completion_text
from castform_env_math.config import JsonlConfig, MathConfig
from castform_env_math.jsonl import Row, load_rows
from castform_env_math.kinds import ALL_KINDS, EQUATIONS, FRACTIONS, PERCENT, WORDS
from castform_env_math.problems import Drawn, Kind, Problem, draw_problems
from castform_env_math.rewards import Style, score_reply, wrap

PLACES: dict[Style, str] = {
    "tags": "between <answer> and </answer>",
    "boxed": "in \\boxed{}",
}


class Math(BaseEnv):
    """Scores one reply by its final answer. Subclasses say what is asked."""

    max_turns = 1

    def __init__(self, style: Style) -> None:
        super().__init__()
        self.style = style

    async def compute_reward(self, rollout: BaseRollout) -> RewardMap:
        reply = extract_completion_text(rollout.messages)
        # in a thread: comparing two LaTeX expressions waits for the process that does the algebra
        return await asyncio.to_thread(score_reply, reply, rollout.example_args, self.style)

    def gold(self, example: Example[Mapping[str, Any]]) -> str:
        """Return the right answer in its place."""
        return wrap(example.payload["ground_truth"], self.style)


class MadeMath(Math):
    """Problems of one or several kinds, made on the spot; no file is read."""

    def __init__(self, config: MathConfig, kinds: Sequence[Kind]) -> None:
        super().__init__(config.style)
        self.config = config
        self.kinds = tuple(kinds)

    async def create_dataset(
        self, split: DatasetSplit, base_dir: Path, *, max_examples: int | None = None
    ) -> Dataset[Mapping[str, Any]]:
        return MadeProblems(self.config, self.kinds).create(split, base_dir, max_examples=max_examples)


class JsonlMath(Math):
    """The problems of a user's own file."""

    def __init__(self, config: JsonlConfig) -> None:
        super().__init__(config.style)
        self.config = config

    async def create_dataset(
        self, split: DatasetSplit, base_dir: Path, *, max_examples: int | None = None
    ) -> Dataset[Mapping[str, Any]]:
        validate_max_examples(max_examples)
        rows = await asyncio.to_thread(load_rows, self.config, split)
        return Dataset([self._make_example(row) for row in rows[:max_examples]])

    def _make_example(self, row: Row) -> Example[Mapping[str, Any]]:
        config = self.config
        messages = [{"role": "system", "content": _system("", self.style)}]
        if config.solved_question is not None and config.solved_answer is not None:
            messages += _solved_turns(config.solved_question, wrap(config.solved_answer, self.style))
        messages.append({"role": "user", "content": row.question})
        return Example(
            id=row.id,
            payload={"prompt_messages": messages, "question": row.question, "ground_truth": row.answer},
        )


class MadeProblems:
    """The same problems as a dataset, for environments that are put together from parts."""

    def __init__(self, config: MathConfig, kinds: Sequence[Kind] = ALL_KINDS) -> None:
        self.config = config
        self.kinds = tuple(kinds)

    def create(
        self, split: DatasetSplit, base_dir: Path, *, max_examples: int | None = None
    ) -> Dataset[Mapping[str, Any]]:
        """Return the examples of a split: `prompt_messages`, `question` and `ground_truth`."""
        validate_max_examples(max_examples)
        config = self.config
        size = config.train_examples if split == "train" else config.eval_examples
        drawn = draw_problems(
            self.kinds,
            split,
            level=config.level,
            count=size if max_examples is None else min(size, max_examples),
            seed=config.seed,
            solved=config.solved_examples,
        )
        return Dataset([self._make_example(each) for each in drawn])

    def _make_example(self, drawn: Drawn) -> Example[Mapping[str, Any]]:
        style, problem = self.config.style, drawn.problem
        messages = [{"role": "system", "content": _system(f", {drawn.rule}", style)}]
        for solved in drawn.solved:
            messages += _solved_turns(solved.text, self._solution(solved))
        messages.append({"role": "user", "content": problem.text})
        return Example(
            id=problem.id,
            payload={
                "prompt_messages": messages,
                "question": problem.text,
                "ground_truth": problem.answer,
                "kind": problem.kind,
            },
        )

    def _solution(self, solved: Problem) -> str:
        answer = wrap(solved.answer, self.config.style)
        return f"{solved.working}\n{answer}" if self.config.working else answer


def _system(form: str, style: Style) -> str:
    return f"Solve the problem. Put the final answer alone {PLACES[style]}{form}."


def _solved_turns(question: str, solution: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": question}, {"role": "assistant", "content": solution}]


def make_words(config: MathConfig) -> MadeMath:
    return MadeMath(config, [WORDS])


def make_equations(config: MathConfig) -> MadeMath:
    return MadeMath(config, [EQUATIONS])


def make_fractions(config: MathConfig) -> MadeMath:
    return MadeMath(config, [FRACTIONS])


def make_percent(config: MathConfig) -> MadeMath:
    return MadeMath(config, [PERCENT])


def make_mixed(config: MathConfig) -> MadeMath:
    return MadeMath(config, ALL_KINDS)


def make_jsonl(config: JsonlConfig) -> JsonlMath:
    return JsonlMath(config)
