from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from castform_env_shell.config import ShellConfig
from castform_env_shell.environment import Shell
from castform_env_shell.replies import MOST_SHOWN, NOT_RUN, read_commands, write_block
from castform_env_shell.tasks import KINDS
from pydantic import ValidationError

from castform.plugins import load_environment
from castform.sandbox import load_provider
from castform.testing import FakeModel, assert_conforms

ALL_KINDS = sum(map(len, KINDS.values()))
UNSAFE = {"sandbox": "process", "warm_boxes": 0}
"""Commands of this repository's own alone: nothing that a model wrote is run by these tests."""


def load(id: str = "shell", **args: Any) -> Shell:
    environment = load_environment(id, args).environment
    assert isinstance(environment, Shell)
    return environment


async def examples(environment: Shell, split: Any = "train", count: int = 1) -> list[Any]:
    return list(await environment.create_dataset(split, Path(), max_examples=count))


async def play(environment: Shell, example: Any, replies: Sequence[str], size: int = 1) -> Any:
    async with FakeModel(lambda request: replies[request.index]) as model:
        group = await model.run_group(environment, example, size=size)
    return group.rollouts[0], model


async def check_gold_is_paid(sandbox: str, count: int, **args: Any) -> None:
    environment = load(sandbox=sandbox, **args)
    try:
        for example in await examples(environment, "train", count):
            gold = [message["content"] for message in environment.gold(example)]
            rollout, _ = await play(environment, example, gold)
            assert rollout.error is None, (example.id, rollout.error)
            assert rollout.rewards == {"correct": 1.0, "touched": 1.0}, example.id
            assert rollout.score == pytest.approx(1.2)
    finally:
        await environment.aclose()


async def test_the_solution_of_every_kind_is_paid_in_full() -> None:
    await check_gold_is_paid("process", ALL_KINDS, warm_boxes=0)


async def test_commands_that_do_nothing_or_harm_are_paid_nothing() -> None:
    environment = load("shell/easy", **UNSAFE)
    (example, *_) = await examples(environment)
    assert example.payload["kind"] == "write_word"
    name = next(iter(example.payload["goal"]["files"]))
    for reply in (
        "I cannot do that.",
        write_block("true"),
        write_block("exit 1"),
        write_block("echo other > elsewhere.txt"),
        example.payload["prompt_messages"][-1]["content"],
        environment.gold(example)[0]["content"].replace("```", ""),
        write_block(f"ln -s /etc/hostname {name}"),
        write_block(f"mkdir {name}"),
        write_block('rm -rf "$PWD"'),
    ):
        rollout, _ = await play(environment, example, [reply])
        assert rollout.termination_reason == "finished", (reply, rollout.error)
        assert set(rollout.rewards.values()) == {0.0}, reply
    rollout, _ = await play(environment, example, [write_block(f"echo wrong > {name}")])
    assert rollout.rewards == {"correct": 0.0, "touched": 1.0}
    await environment.aclose()


async def test_a_command_left_running_changes_nothing_afterwards_and_has_ended() -> None:
    environment = load("shell/easy", **UNSAFE)
    (example, *_) = await examples(environment)
    name = next(iter(example.payload["goal"]["files"]))
    script = f"while :; do echo wrong > {name}; done &\n{example.payload['solution']}"
    rollout, _ = await play(environment, example, [write_block(script)])
    assert rollout.error is None and rollout.rewards["touched"] == 1.0
    assert not environment._running
    await environment.aclose()


async def test_the_model_is_told_what_its_commands_printed_until_it_is_done() -> None:
    environment = load("shell/medium", command_seconds=0.5, **UNSAFE)
    (example, *_) = await examples(environment)
    replies = [
        write_block(f"printf 'x%.0s' $(seq {2 * MOST_SHOWN}); echo last; exit 3"),
        write_block("sleep 60"),
    ]
    rollout, model = await play(environment, example, [*replies, "Done."])
    told = [request.messages[-1]["content"] for request in model.requests[1:]]
    assert told[0].startswith("exit code 3\n… ") and told[0].endswith("xlast")
    assert len(told[0]) < MOST_SHOWN + 30
    assert told[1] == "killed after 0.5 s"
    assert rollout.termination_reason == "finished" and rollout.score == 0.0
    await environment.aclose()


async def test_files_stay_between_the_replies_of_a_rollout_and_siblings_have_their_own() -> None:
    environment = load("shell/medium", turns=2, **UNSAFE)
    (example, *_) = await examples(environment)
    first, second = write_block("ls mine 2>/dev/null; touch mine; ls mine"), write_block("ls mine")
    _, model = await play(environment, example, [first, second, "Done."], size=3)
    told = [r.messages[-1]["content"] for r in model.requests if r.index == 1]
    assert told == ["exit code 0\nmine"] * 3
    assert len(model.requests) == 6  # the second reply is the last one
    await environment.aclose()


async def test_the_last_reply_that_is_allowed_is_run_too() -> None:
    environment = load("shell/easy", turns=2, **UNSAFE)
    (example, *_) = await examples(environment)
    gold = environment.gold(example)[0]["content"]
    rollout, _ = await play(environment, example, [write_block("true"), gold])
    assert (rollout.termination_reason, rollout.rewards["correct"]) == ("finished", 1.0)
    await environment.aclose()


@pytest.mark.parametrize(
    ("reply", "commands"),
    [
        ("```sh\nls\n```", "ls"),
        ("Sure:\n```bash\nls -l\npwd\n```\nthat is it", "ls -l\npwd"),
        ("```\nls\n```\n```sh\nrm x\n```", "ls"),
        ("```sh\n\n```", None),
        ("```sh\nls", None),
        ("```python\nprint()\n```", None),
        ("```python\nprint()\n```\nThen:\n```sh\nls\n```", "ls"),
        ("```text\nrm a\n```\nrm b\n```", None),
        ("```Bash title\nls\n```", "ls"),
        ("```" * 3 + "x" * 100_000, None),
        ("ls", None),
        ("", None),
    ],
)
def test_the_first_shell_block_of_a_reply_is_run(reply: str, commands: str | None) -> None:
    assert read_commands(reply) == commands


async def test_prompts_show_one_solved_task_and_how_many_replies_there_are() -> None:
    for level, turns in (("easy", 1), ("medium", 3), ("hard", 5)):
        for example in await examples(load(f"shell/{level}"), "eval", 6):
            payload = example.payload
            assert (payload["level"], payload["turns"]) == (level, turns)
            roles = [message["role"] for message in payload["prompt_messages"]]
            assert roles == ["system", *["user", "assistant"] * (1 if turns == 1 else 2), "user"]
            assert payload["solution"] not in str(payload["prompt_messages"])
    bare = (await examples(load("shell/easy", solved_examples=0)))[0]
    assert [message["role"] for message in bare.payload["prompt_messages"]] == ["system", "user"]


@pytest.mark.parametrize(
    ("sandbox", "said", "hint"),
    [
        ("nosuch", "no sandbox provider called 'nosuch'", ""),
        ("docker", "does not answer", "(start it (`docker info`"),
    ],
)
async def test_a_provider_that_does_not_work_fails_rollouts_pays_nothing_and_says_what_to_do(
    sandbox: str, said: str, hint: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    environment = load("shell/easy", sandbox=sandbox)
    (example, *_) = await examples(environment)
    rollout, _ = await play(environment, example, [environment.gold(example)[0]["content"]])
    assert rollout.score is None and rollout.termination_reason == "sandbox_error"
    assert said in rollout.error and hint in rollout.error
    await environment.aclose()


async def test_commands_that_no_program_can_be_given_are_not_run_and_pay_nothing() -> None:
    environment = load("shell/medium", **UNSAFE)
    (example, *_) = await examples(environment)
    replies = [write_block("echo a\0b"), write_block(f"echo {'x' * 200_000}"), write_block("echo \ud800 ok")]
    rollout, model = await play(environment, example, replies)
    told = [request.messages[-1]["content"] for request in model.requests[1:]]
    assert told == [NOT_RUN, NOT_RUN] and rollout.error is None
    assert rollout.rewards == {"correct": 0.0, "touched": 0.0}
    await environment.aclose()


class StuckBox:
    """A box of which the end takes as long as a busy engine makes it take."""

    def __init__(self, box: Any, stage: StuckProvider) -> None:
        self._box, self._stage = box, stage

    def __getattr__(self, name: str) -> Any:
        return getattr(self._box, name)

    async def exec(self, command: Sequence[str], **more: Any) -> Any:
        if "sleep 60" in command:
            self._stage.begun.set()
        return await self._box.exec(command, **more)

    async def close(self) -> None:
        await self._stage.go.wait()
        await self._box.close()
        self._stage.closed += 1


class StuckProvider:
    """Starts such boxes, and takes as long over it where `starts` is set."""

    def __init__(self, *, starts: bool) -> None:
        self._provider = load_provider("process")
        self.starts = starts
        self.go, self.begun, self.closed = asyncio.Event(), asyncio.Event(), 0

    async def start(self, request: Any) -> StuckBox:
        if self.starts:
            self.begun.set()
            await self.go.wait()
        return StuckBox(await self._provider.start(request), self)

    async def aclose(self) -> None:
        await self.go.wait()
        await self._provider.aclose()


@pytest.mark.parametrize("starts", [True, False], ids=["starting", "running"])
async def test_a_rollout_that_is_cancelled_waits_for_no_box_and_leaves_none(starts: bool) -> None:
    environment = load("shell/easy", command_seconds=60, **UNSAFE)
    (example, *_) = await examples(environment)
    provider = StuckProvider(starts=starts)
    boxes = environment._boxes.get()
    boxes._provider = provider
    task = asyncio.create_task(play(environment, example, [write_block("sleep 60")]))
    await provider.begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert provider.closed == 0 and not environment._running
    provider.go.set()
    if starts:
        await boxes._background.wait()
    await environment.aclose()
    assert provider.closed == 1


def test_running_unconfined_is_warned_about() -> None:
    assert not load("shell").validation_diagnostics()
    (warning,) = load("shell", sandbox="process").validation_diagnostics()
    assert (warning.severity, warning.code) == ("warning", "unconfined_commands")
    for wrong in ({"level": "extreme"}, {"turns": 0}, {"memory_mb": 1}, {"unknown": 1}):
        with pytest.raises(ValidationError):
            ShellConfig(**wrong)


def test_it_conforms() -> None:
    assert_conforms("shell", args=UNSAFE, examples=1, scripts=1)
