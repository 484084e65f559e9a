"""Work in a folder by shell commands; what the folder holds in the end is looked at from outside."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any

from benchmax.envs import (
    BaseEnv,
    BaseRollout,
    Dataset,
    DatasetSplit,
    Example,
    Message,
    RewardMap,
    RolloutFailure,
    ValidationDiagnostic,
)
from benchmax.envs.dataset import validate_max_examples
from benchmax.envs.loop_local import LoopLocal
from benchmax.rewards.deterministic.completion import is_assistant, message_text
from castform.sandbox.errors import CastformError
from castform_env_shell.boxes import Boxes, TaskBox, describe_failure
from castform_env_shell.config import ShellConfig
from castform_env_shell.replies import DONE, read_commands, write_block
from castform_env_shell.state import Goal, State, is_reached, touched_share
from castform_env_shell.task import Level, Task, key_of
from castform_env_shell.tasks import TURNS, draw_tasks, make_demo, shown_kind

SYSTEM = (
    "You work in a folder by shell commands. Reply with the commands in one ```sh block and nothing else."
)
SEVERAL = f" You are told what they print. Reply with more commands, or with {DONE} when the task is done."


class Shell(BaseEnv):
    """A task, a box, a few replies with commands. The box ends with its rollout."""

    reward_weights = MappingProxyType({"correct": 1.0, "touched": 0.2})

    def __init__(self, config: ShellConfig) -> None:
        self.config = config
        self._boxes = LoopLocal(partial(Boxes, config))
        self._running: dict[str, TaskBox] = {}
        super().__init__(max_turns=config.turns or max(TURNS.values()))

    async def create_dataset(
        self, split: DatasetSplit, base_dir: Path, *, max_examples: int | None = None
    ) -> Dataset[Mapping[str, Any]]:
        validate_max_examples(max_examples)
        config = self.config
        size = config.train_examples if split == "train" else config.eval_examples
        size = size if max_examples is None else min(size, max_examples)
        drawn = islice(draw_tasks(split, level=config.level, seed=config.seed), size)
        return Dataset([make_example(kind, level, task, config) for kind, level, task in drawn])

    async def next_messages(self, rollout: BaseRollout) -> Sequence[Message] | None:
        """Run the commands of the last reply; return what they printed, or None when the rollout is over."""
        args = rollout.example_args
        replies = [message for message in rollout.messages[args["start_at"] :] if is_assistant(message)]
        commands = read_commands(message_text(replies[-1]))
        if commands is None:
            return None
        try:
            told = await (await self._get_box(rollout.rollout_id, args)).run(commands)
        except CastformError as error:
            raise RolloutFailure("sandbox_error", describe_failure(error)) from error
        return None if len(replies) >= args["turns"] else [{"role": "user", "content": told}]

    async def compute_reward(self, rollout: BaseRollout) -> RewardMap:
        box = self._running.get(rollout.rollout_id)
        if box is None:  # no command was run
            return {"correct": 0.0, "touched": 0.0}
        try:
            end = await box.read()
        except CastformError as error:
            raise RolloutFailure("sandbox_error", describe_failure(error)) from error
        start, goal = read_start(rollout.example_args), read_goal(rollout.example_args)
        return {
            "correct": float(is_reached(goal, start, end)),
            "touched": touched_share(goal, start, end),
        }

    @asynccontextmanager
    async def rollout_context(
        self, rollout_id: str, example: Example[Mapping[str, Any]]
    ) -> AsyncIterator[None]:
        try:
            yield
        except asyncio.CancelledError:
            if (left := self._running.pop(rollout_id, None)) is not None:
                left.leave()
            raise
        finally:
            if (box := self._running.pop(rollout_id, None)) is not None:
                await box.close()

    def gold(self, example: Example[Mapping[str, Any]]) -> list[dict[str, str]]:
        """Return the commands that do it, and that it is done."""
        replies = [write_block(example.payload["solution"]), DONE]
        return [{"role": "assistant", "content": reply} for reply in replies[: example.payload["turns"]]]

    def validation_diagnostics(self) -> Sequence[ValidationDiagnostic]:
        if self.config.sandbox != "process":
            return ()
        unsafe = "sandbox = 'process' isolates nothing: the model's commands run as you, on this machine"
        return (ValidationDiagnostic("warning", "unconfined_commands", unsafe),)

    async def check_ready(self) -> None:
        """MissingError where no sandbox works here; SandboxError where no box can be started."""
        await self._boxes.get().check()

    async def aclose(self) -> None:
        boxes = self._boxes.pop()
        if boxes is not None:
            await boxes.aclose()
        await super().aclose()

    async def _get_box(self, rollout_id: str, args: Mapping[str, Any]) -> TaskBox:
        if rollout_id not in self._running:
            self._running[rollout_id] = await self._boxes.get().open(read_start(args))
        return self._running[rollout_id]


def make_example(kind: str, level: Level, task: Task, config: ShellConfig) -> Example[Mapping[str, Any]]:
    """Return a task as an example. The model sees `prompt_messages` alone."""
    turns = config.turns or TURNS[level]
    messages: list[Message] = [{"role": "system", "content": SYSTEM + (SEVERAL if turns > 1 else "")}]
    if config.solved_examples:
        demo = make_demo(shown_kind(kind, level))
        messages += [
            {"role": "user", "content": demo.question},
            {"role": "assistant", "content": write_block(demo.solution)},
        ]
        if turns > 1:
            messages += [
                {"role": "user", "content": "exit code 0"},
                {"role": "assistant", "content": DONE},
            ]
    messages.append({"role": "user", "content": task.question})
    return Example(
        id=f"{kind}-{key_of(task)[:12]}",
        payload={
            "prompt_messages": messages,
            "kind": kind,
            "level": level,
            "turns": turns,
            "start_at": len(messages),
            "solution": task.solution,
            "start": {
                "files": dict(task.start.files),
                "folders": sorted(task.start.folders),
                "executable": sorted(task.start.executable),
            },
            "goal": {
                "files": dict(task.goal.files),
                "folders": list(task.goal.folders),
                "executable": list(task.goal.executable),
            },
        },
    )


def read_start(payload: Mapping[str, Any]) -> State:
    start = payload["start"]
    return State(
        files=start["files"],
        folders=frozenset(start["folders"]),
        executable=frozenset(start["executable"]),
    )


def read_goal(payload: Mapping[str, Any]) -> Goal:
    goal = payload["goal"]
    return Goal(files=goal["files"], folders=tuple(goal["folders"]), executable=tuple(goal["executable"]))


def make_shell(config: ShellConfig) -> Shell:
    """Return tasks of all levels, unless one is set."""
    return Shell(config)


def make_easy(config: ShellConfig) -> Shell:
    return Shell(_with_level(config, "easy"))


def make_medium(config: ShellConfig) -> Shell:
    return Shell(_with_level(config, "medium"))


def make_hard(config: ShellConfig) -> Shell:
    return Shell(_with_level(config, "hard"))


def _with_level(config: ShellConfig, level: Level) -> ShellConfig:
    return config if config.level is not None else config.model_copy(update={"level": level})
