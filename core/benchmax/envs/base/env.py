"""The environment that most authors write: a prompt, perhaps tools, and a reward for the transcript."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cached_property
from typing import Any

from benchmax.envs.base.attempt import Attempt
from benchmax.envs.base.budgets import check_max_tool_calls, check_max_turns
from benchmax.envs.base.rollout import BaseRollout
from benchmax.envs.environment import Environment
from benchmax.envs.model_client import CallLimits, ModelClient
from benchmax.envs.reward_values import RewardMap
from benchmax.envs.shared_types import Example, Message, RolloutRequest, Tool
from benchmax.envs.tools import FunctionTool, bind_tools, call_function_tool

Payload = Mapping[str, Any]
"""`prompt_messages` and whatever the reward needs."""


class BaseEnv(Environment[Payload, BaseRollout]):
    """Chats with the model, runs its tool calls, and asks `compute_reward` about the transcript.

    A subclass gives `create_dataset`, usually `compute_reward`, and tools in one of two
    ways: a list of Python functions in `tools`, or `list_tools` with `run_tool`. With
    `next_messages` it talks on after a reply without calls. Hooks that raise cost their own
    rollout its score and no other.
    """

    max_turns: int | None = None
    """Most model calls of one rollout. Must be set."""
    max_tool_calls: int | None = None
    """Most tool calls of one rollout; the batch that goes over it is not run. None: no limit."""
    tools: Sequence[Callable[..., object] | FunctionTool] = ()
    """Functions that the model may call. A method of the class is called with the environment as self."""
    parallel_tool_calls: bool = False
    """Run the calls of one turn side by side instead of one after the other."""
    model_retries: int = 2
    """Further tries of a model call after 408, 409, 429, 5xx or a broken connection."""
    model_retry_seconds: float = 0.5
    """Pause before the first retry, then doubled; a server's Retry-After wins."""
    model_timeout_seconds: float | None = 600.0
    """Most seconds for one model call."""
    rollout_timeout_seconds: float | None = None
    """Most seconds for one rollout, tools and scoring included; then it fails with harness_timeout."""
    tool_timeout_seconds: float | None = None
    """Most seconds for one tool call; then the model is told so. Plain functions run in a thread for it."""

    def __init__(self, *, max_turns: int | None = None, max_tool_calls: int | None = None) -> None:
        if max_turns is not None:
            self.max_turns = max_turns
        if max_tool_calls is not None:
            self.max_tool_calls = max_tool_calls
        check_max_turns(self.max_turns)
        check_max_tool_calls(self.max_tool_calls)

    async def list_tools(self) -> Sequence[Tool]:
        """Return the tools of a rollout in OpenAI's form; asked once per rollout. Default: those in `tools`."""
        return [tool.definition() for tool in self.function_tools.values()]

    async def run_tool(self, rollout_id: str, tool_name: str, /, **arguments: Any) -> object:
        """Run one tool call and return its result; the arguments fit the tool's schema.

        The default calls the function of that name in `tools` and tells the model about
        an exception. An override that raises ends the rollout: RolloutFailure with its
        reason, anything else as `tool_error`. Give an override the `/` too when a tool has
        a parameter called `rollout_id` or `tool_name`.
        """
        tool = self.function_tools.get(tool_name)
        if tool is None:
            raise ValueError(f"{type(self).__name__}.run_tool does not know the tool {tool_name!r}")
        return await call_function_tool(
            tool.function, arguments, in_thread=self.tool_timeout_seconds is not None
        )

    async def next_messages(self, rollout: BaseRollout) -> Sequence[Message] | None:
        """Return what the model hears next when a reply calls no tool; None (the default) ends the rollout.

        This is how a dialogue goes on without tools: a game's next position, a simulated
        user. `rollout` is the attempt as it would be scored if it ended here; its
        `example_args` are this rollout's own, so what is kept there stays for the next
        turn and for the reward. A message has a role other than assistant. Not asked after
        a reply that was cut off. A hook that raises ends the rollout: RolloutFailure with
        its reason, anything else as `harness_error`.
        """
        return None

    async def compute_reward(self, rollout: BaseRollout) -> RewardMap | None:
        """Return named reward components of a transcript that can be scored; None leaves it to the group."""
        return None

    @asynccontextmanager
    async def rollout_context(self, rollout_id: str, example: Example[Payload]) -> AsyncIterator[None]:
        """Set up what one rollout needs before its first turn and take it down after its reward."""
        yield

    async def aclose(self) -> None:
        """Close the model connections of the running event loop. An override calls this one too."""
        await self.model_client.aclose()

    @cached_property
    def function_tools(self) -> dict[str, FunctionTool]:
        """The functions in `tools` by name, methods bound to this environment."""
        return bind_tools(self.tools, self)

    @cached_property
    def model_client(self) -> ModelClient:
        """The one client of all rollouts."""
        return ModelClient(
            CallLimits(
                retries=self.model_retries,
                retry_seconds=self.model_retry_seconds,
                timeout_seconds=self.model_timeout_seconds,
            )
        )

    async def run_rollout(self, request: RolloutRequest[Payload]) -> BaseRollout:
        """Make one attempt and score it.

        ValueError or TypeError: `max_turns` is not set, or the payload has no usable
        prompt. Everything else that goes wrong is in the result.
        """
        return await Attempt(self, request).run()
