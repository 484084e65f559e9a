"""Write one function; hidden tests say whether it does what it should."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
from benchmax.envs.loop_local import LoopLocal
from benchmax.rewards import extract_completion_text
from castform_env_code.candidate import Layers, Limits, can_confine
from castform_env_code.candidate_child import decode
from castform_env_code.config import CodeConfig, TasksConfig
from castform_env_code.replies import fenced
from castform_env_code.rewards import score_reply
from castform_env_code.tasks import load_tasks
from castform_env_code.tasks.task import (
    Task,
    make_shown,
    read_reference,
    read_signature,
    read_statement,
    split_of,
)

if TYPE_CHECKING:
    from castform_env_code.boxes import CandidateBoxes

SYSTEM = (
    "Write the Python function that is asked for, in one ```python block and nothing else. "
    "It may import modules that only compute, such as math; it can open no file and start nothing."
)
_SOLVED = (
    "Write `def add_ten(n: int) -> int`. Return n plus 10. For example, add_ten(5) is 15 and add_ten(-10) is 0.",
    fenced("def add_ten(n: int) -> int:\n    return n + 10"),
)
_UNCONFINED = (
    "no seccomp filter is known for this machine, so nothing but Python itself would keep the model's code "
    "from files and the network"
)


class Code(BaseEnv):
    """One task, one reply with code, two rewards."""

    max_turns = 1

    def __init__(self, config: CodeConfig) -> None:
        super().__init__()
        self.config = config
        self._boxes = LoopLocal(partial(_make_boxes, config))

    async def create_dataset(
        self, split: DatasetSplit, base_dir: Path, *, max_examples: int | None = None
    ) -> Dataset[Mapping[str, Any]]:
        validate_max_examples(max_examples)
        config = self.config
        limit = config.train_examples if split == "train" else config.eval_examples
        tasks = list_tasks(split, level=config.level, seed=config.seed)[:limit]
        return Dataset(
            [
                make_example(task, tests=config.tests, seed=config.seed, solved=config.solved_examples > 0)
                for task in tasks[:max_examples]
            ]
        )

    async def compute_reward(self, rollout: BaseRollout) -> RewardMap:
        config, example = self.config, rollout.example_args
        return await score_reply(
            extract_completion_text(rollout.messages),
            example["task"],
            tests=example["tests"],
            seed=example["tests_seed"],
            scoring=config.scoring,
            limits=Limits(
                cpu_seconds=config.cpu_seconds,
                wall_seconds=config.wall_seconds,
                memory_bytes=config.memory_mb << 20,
            ),
            layers=Layers(required=config.confinement == "required"),
            boxes=self._boxes.get() if config.sandbox else None,
        )

    async def check_ready(self) -> None:
        """Where a sandbox is asked for: MissingError when it does not work here, SandboxError when no box starts."""
        if self.config.sandbox is not None:
            await self._boxes.get().check()

    async def aclose(self) -> None:
        boxes = self._boxes.pop()
        if boxes is not None:
            await boxes.aclose()
        await super().aclose()

    def gold(self, example: Example[Mapping[str, Any]]) -> str:
        """Return the reference solution in a block."""
        return fenced(read_reference(load_tasks()[example.payload["task"]]))

    def validation_diagnostics(self) -> Sequence[ValidationDiagnostic]:
        if can_confine() or self.config.sandbox not in (None, "process"):
            return ()
        if self.config.confinement == "required":
            hint = "; confinement = 'best' runs it all the same"
            return (ValidationDiagnostic("error", "unconfined_code", _UNCONFINED + hint),)
        return (ValidationDiagnostic("warning", "unconfined_code", _UNCONFINED),)


class Tasks:
    """The tasks as a dataset, for environments that are put together from parts."""

    def __init__(self, config: TasksConfig) -> None:
        self.config = config

    def create(
        self, split: DatasetSplit, base_dir: Path, *, max_examples: int | None = None
    ) -> Dataset[Mapping[str, Any]]:
        """Return the examples of a split.

        Their fields: `prompt_messages`, `question`, `task`, `level`, `tests`, `tests_seed`, and the reference
        solution as `ground_truth`.
        """
        validate_max_examples(max_examples)
        config = self.config
        tasks = list_tasks(split, level=config.level, seed=config.seed)[:max_examples]
        examples = [make_example(task, tests=config.tests, seed=config.seed, solved=True) for task in tasks]
        return Dataset(
            [
                Example(made.id, {**made.payload, "ground_truth": fenced(read_reference(task))})
                for made, task in zip(examples, tasks, strict=True)
            ]
        )


def list_tasks(split: DatasetSplit, *, level: int | None, seed: int) -> list[Task]:
    """Return the tasks of a split, of one level or all, in an order that the seed decides."""
    tasks = [
        task for task in load_tasks().values() if split_of(task.name) == split and level in (None, task.level)
    ]
    random.Random(f"{seed}:{split}").shuffle(tasks)
    return tasks


def make_example(task: Task, *, tests: int, seed: int, solved: bool) -> Example[Mapping[str, Any]]:
    """Return a task as an example. What its hidden tests expect is nowhere in it."""
    question = write_question(task)
    messages = [{"role": "system", "content": SYSTEM}]
    if solved:
        messages += [{"role": "user", "content": _SOLVED[0]}, {"role": "assistant", "content": _SOLVED[1]}]
    messages.append({"role": "user", "content": question})
    payload = {
        "prompt_messages": messages,
        "question": question,
        "task": task.name,
        "level": task.level,
        "tests": tests,
        "tests_seed": seed,
    }
    return Example(id=task.name, payload=payload)


def write_question(task: Task) -> str:
    """Return what the model is asked: signature, statement, two calls with what they return."""
    calls = [
        f"{task.name}({', '.join(map(repr, test.arguments))}) is {decode(test.expected)!r}"
        for test in make_shown(task)
    ]
    return f"Write `{read_signature(task)}`. {read_statement(task)} For example, {' and '.join(calls)}."


def _make_boxes(config: CodeConfig) -> CandidateBoxes:
    from castform_env_code.boxes import CandidateBoxes  # only who asks for a sandbox needs one

    assert config.sandbox is not None
    return CandidateBoxes(
        config.sandbox,
        image=config.image,
        warm_boxes=config.warm_boxes,
        memory_bytes=config.memory_mb << 20,
    )


def make_code(config: CodeConfig) -> Code:
    return Code(config)


def make_easy(config: CodeConfig) -> Code:
    """Return the tasks of level 1, unless another level is set."""
    return Code(config if config.level is not None else config.model_copy(update={"level": 1}))


def make_tasks(config: TasksConfig) -> Tasks:
    return Tasks(config)
