"""A BaseEnv that talks on after a reply without tool calls: `next_messages`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from benchmax.envs import BaseEnv, BaseRollout, Dataset, Example, RolloutFailure
from castform.testing import FakeModel, Reply, ToolUse

PROMPT = {"role": "user", "content": "count to three"}


def say(text: str, role: str = "user") -> dict[str, str]:
    return {"role": role, "content": text}


class Dialogue(BaseEnv):
    """Hears `heard[turn]` after each reply; the reward counts what the model said."""

    max_turns = 4
    heard: Any = ()

    async def create_dataset(self, split: Any, base_dir: Any, *, max_examples: Any = None) -> Dataset[Any]:
        return Dataset([Example("e", {"prompt_messages": [PROMPT], "seen": []})])

    async def next_messages(self, rollout: BaseRollout) -> Any:
        seen = rollout.example_args["seen"]
        seen.append(rollout.messages[-1]["content"])
        following = self.heard[len(seen) - 1] if len(seen) <= len(self.heard) else None
        if isinstance(following, BaseException):
            raise following
        return following

    async def compute_reward(self, rollout: BaseRollout) -> dict[str, float]:
        return {"said": float(len(rollout.example_args["seen"]))}


async def play(heard: Any, replies: Sequence[Any], env: Dialogue | None = None) -> tuple[Any, FakeModel]:
    env = env or Dialogue()
    env.heard = heard
    (example,) = await env.create_dataset("train", None)
    async with FakeModel(replies) as model:
        group = await model.run_group(env, example)
    await env.aclose()
    assert example.payload["seen"] == []
    return group.rollouts[0], model


async def test_the_dialogue_goes_on_until_there_is_nothing_more_to_hear() -> None:
    rollout, model = await play([[say("two?")], [say("be brief", "system"), say("three?")]], ["1", "2", "3"])
    assert (rollout.termination_reason, rollout.rewards) == ("finished", {"said": 3.0})
    assert list(model.requests[-1].messages) == [
        PROMPT,
        say("1", "assistant"),
        say("two?"),
        say("2", "assistant"),
        say("be brief", "system"),
        say("three?"),
    ]


@pytest.mark.parametrize("heard", [[], [None], [[]], [()]])
async def test_nothing_to_hear_ends_it_as_ever(heard: Any) -> None:
    rollout, model = await play(heard, ["1"])
    assert (rollout.termination_reason, rollout.rewards) == ("finished", {"said": 1.0})
    assert len(model.requests) == 1


async def test_turns_are_bounded_and_what_was_said_is_still_scored() -> None:
    rollout, model = await play([[say("go on")]] * 9, ["a", "b", "c", "d"])
    assert (rollout.termination_reason, rollout.rewards) == ("max_turns_exceeded", {"said": 4.0})
    assert len(model.requests) == 4


async def test_a_cut_off_reply_is_the_last_one() -> None:
    rollout, _ = await play([[say("go on")]], [Reply(content="1", finish_reason="length")])
    assert (rollout.termination_reason, rollout.rewards) == ("output_exceeded", {"said": 0.0})


async def test_a_reply_with_tool_calls_is_answered_by_its_tools_alone() -> None:
    def roll() -> int:
        """Roll a die."""
        return 4

    env = Dialogue()
    env.tools = (roll,)
    rollout, model = await play([[say("again")]], [Reply(tool_calls=[ToolUse(name="roll")]), "4", "5"], env)
    assert [m["role"] for m in model.requests[-1].messages] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
    ]
    assert rollout.rewards == {"said": 2.0}


@pytest.mark.parametrize(
    ("heard", "reason", "error"),
    [
        (KeyError("board"), "harness_error", "next_messages: KeyError: 'board'"),
        (SystemExit(3), "harness_error", "next_messages: SystemExit"),
        (RolloutFailure("sandbox_error", "the board burnt"), "sandbox_error", "the board burnt"),
        ("go on", "harness_error", "list of messages or None, not str"),
        ([say("x", "assistant")], "harness_error", "may not speak for the model"),
        ([{"content": "x"}], "harness_error", "its message 0 must have a text role"),
        ([say("x"), 3], "harness_error", "its message 1 must be a mapping, not int"),
    ],
)
async def test_a_broken_hook_costs_its_own_rollout(heard: Any, reason: str, error: str) -> None:
    rollout, _ = await play([heard], ["1"])
    assert (rollout.termination_reason, rollout.rewards, rollout.score) == (reason, {}, None)
    assert error in rollout.error


async def test_messages_are_copied_so_that_siblings_share_none() -> None:
    shared = [say("two?")]
    await play([shared], ["1", "2"])
    assert shared == [say("two?")]
    env = Dialogue()
    env.heard = [shared]
    (example,) = await env.create_dataset("train", None)
    async with FakeModel(lambda request: str(request.index)) as model:
        group = await model.run_group(env, example, size=3)
    await env.aclose()
    assert [rollout.rewards for rollout in group.rollouts] == [{"said": 2.0}] * 3
