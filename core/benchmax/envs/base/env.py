"""The environment that most authors write: a prompt, perhaps tools, and a reward for the transcript."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cached_property
from typing import Any, TypeVar

from benchmax.envs.base.attempt import Attempt
from benchmax.envs.base.budgets import check_max_tool_calls, check_max_turns
from benchmax.envs.base.rollout import BaseRollout
from benchmax.envs.environment import Environment
from benchmax.envs.model_client import CallLimits, ModelClient
from benchmax.envs.reward_values import RewardMap
from benchmax.envs.shared_types import Example, Message, RolloutRequest, Tool
from benchmax.envs.tool_opening import ToolItem, ToolPlan, current_tools, plan_tools
from benchmax.envs.tools import FunctionTool, check_limit, choose_max_chars, choose_timeout

Payload = Mapping[str, Any]
"""`prompt_messages` and whatever the reward needs."""

ToolsetT = TypeVar("ToolsetT")


class BaseEnv(Environment[Payload, BaseRollout]):
    """Chats with the model, runs its tool calls, and asks `compute_reward` about the transcript.

    A subclass gives `create_dataset`, usually `compute_reward`, and tools in one of two
    ways: functions, classes and sources in `tools`, or `list_tools` with `run_tool`. With
    `next_messages` it talks on after a reply without calls. Hooks that raise cost their own
    rollout its score and no other.
    """

    max_turns: int | None = None
    """Most model calls of one rollout. Must be set."""
    max_tool_calls: int | None = None
    """Most tool calls of one rollout; the batch that goes over it is not run. None: no limit."""
    tools: Sequence[ToolItem] = ()
    """What the model may call: functions (a method of this class gets the environment as self), FunctionTools,
    classes whose public methods are tools (each rollout has an instance of its own), and ToolSources."""
    max_result_chars: int | None = 50_000
    """Most characters of one tool result; the rest is cut off and the model is told so. None: no limit."""
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

    score_in_thread: bool = False
    """Run compute_reward in a thread with an event loop of its own: for one that computes or blocks for long.
    Of one environment at most 8 run so at a time. It may not touch what belongs to the rollouts' event loop."""

    def __init__(self, *, max_turns: int | None = None, max_tool_calls: int | None = None) -> None:
        if max_turns is not None:
            self.max_turns = max_turns
        if max_tool_calls is not None:
            self.max_tool_calls = max_tool_calls
        check_max_turns(self.max_turns)
        check_max_tool_calls(self.max_tool_calls)
        _ = self.tool_plan

    async def list_tools(self) -> Sequence[Tool]:
        """Return the tools of a rollout in OpenAI's form; asked once per rollout. Default: those in `tools`."""
        return [tool.definition() for tool in self.rollout_tools().values()]

    async def run_tool(self, rollout_id: str, tool_name: str, /, **arguments: Any) -> object:
        """Run one tool call and return its result; the arguments fit the tool's schema.

        The default calls the function of that name in `tools` and tells the model about
        an exception. An override that raises ends the rollout: RolloutFailure with its
        reason, anything else as `tool_error`. Give an override the `/` too when a tool has
        a parameter called `rollout_id` or `tool_name`.
        """
        tool = self.rollout_tools().get(tool_name)
        if tool is None:
            raise ValueError(f"{type(self).__name__}.run_tool does not know the tool {tool_name!r}")
        return await tool.call(
            arguments,
            in_thread=choose_timeout(tool, self.tool_timeout_seconds) is not None,
            max_chars=choose_max_chars(tool, self.max_result_chars),
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
        """Close what the running event loop's rollouts share: model connections, and what sources of tools hold.

        An override calls this one too.
        """
        try:
            kept: tuple[Sequence[ToolItem], ToolPlan] | None = self.__dict__.get("_tool_plan")
            for source in kept[1].sources if kept else ():
                closer = getattr(source, "aclose", None)
                if closer is not None:
                    await closer()
        finally:
            await self.model_client.aclose()

    @property
    def tool_plan(self) -> ToolPlan:
        """What is in `tools`, checked. ValueError, TypeError or ImportError for what can never be a tool."""
        kept: tuple[Sequence[ToolItem], ToolPlan] | None = self.__dict__.get("_tool_plan")
        if kept is None or kept[0] is not self.tools:
            check_limit("max_result_chars", self.max_result_chars, whole=True)
            cls = type(self)
            try:
                plan = plan_tools(self.tools, self)
            except TypeError:
                # Whoever lists and runs tools alone may keep definitions of any form under this name.
                if cls.list_tools is BaseEnv.list_tools or cls.run_tool is BaseEnv.run_tool:
                    raise
                plan = ToolPlan(functions={}, toolsets=(), sources=())
            _check_run_tool(self, plan)
            kept = self.__dict__["_tool_plan"] = (self.tools, plan)
        return kept[1]

    @property
    def function_tools(self) -> dict[str, FunctionTool]:
        """The functions in `tools` by name, methods bound to this environment."""
        return self.tool_plan.functions

    def rollout_tools(self) -> dict[str, FunctionTool]:
        """Return the tools by name of the rollout that runs here; outside of one those that need none."""
        opened = current_tools(self)
        return self.tool_plan.known() if opened is None else opened.tools

    def toolset(self, cls: type[ToolsetT]) -> ToolsetT:
        """Return the instance that the running rollout has of a class in `tools`, e.g. for its reward.

        LookupError outside of a rollout, or for another class.
        """
        opened = current_tools(self)
        instance = None if opened is None else opened.instances.get(cls)
        if not isinstance(instance, cls):
            raise LookupError(
                f"no rollout of {type(self).__name__} runs here that has tools of {cls.__name__}"
            )
        return instance

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

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_tool_plan"}


def _check_run_tool(env: BaseEnv, plan: ToolPlan) -> None:
    """Raise ValueError when an overridden run_tool takes for itself what a tool's parameter is called."""
    taken = [
        name
        for name, parameter in list(inspect.signature(env.run_tool).parameters.items())[:2]
        if parameter.kind is parameter.POSITIONAL_OR_KEYWORD
    ]
    for tool in plan.known().values():
        for name in tool.parameters.get("properties") or ():
            if name in taken:
                raise ValueError(
                    f"tool {tool.name!r} has a parameter called {name!r}, which run_tool of {type(env).__name__} "
                    "takes for itself: write run_tool(self, rollout_id, tool_name, /, **arguments)"
                )
