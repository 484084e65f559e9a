"""One attempt from set-up to reward. Whatever a hook does, the result is a typed rollout."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from benchmax.auth import ModelRequestContext
from benchmax.envs.base.budgets import check_max_tool_calls, check_max_turns
from benchmax.envs.base.conversation import Conversation
from benchmax.envs.base.hooks import await_hook
from benchmax.envs.base.rollout import PROMPT_FIELD, BaseRollout, own_copy, read_messages, read_payload
from benchmax.envs.base.scoring import ask_for_reward
from benchmax.envs.base.tool_box import ToolBox
from benchmax.envs.reward_values import RewardMap
from benchmax.envs.shared_types import Example, Message, RolloutFailure, RolloutRequest
from benchmax.envs.termination import FINISHED, describe_error, settle_termination_reason
from benchmax.envs.tool_opening import open_tools

if TYPE_CHECKING:
    from benchmax.envs.base.env import BaseEnv, Payload

logger = logging.getLogger(__name__)


class Attempt:
    """The course of one rollout: `rollout` is None while it talks, then what it came to."""

    def __init__(self, env: BaseEnv, request: RolloutRequest[Payload]) -> None:
        max_turns = check_max_turns(env.max_turns)
        if max_turns is None:
            raise ValueError(f"{type(env).__name__} must configure max_turns before rollout")
        self._tool_plan = env.tool_plan
        messages, self._example_args = read_payload(request.example.payload)
        self._env = env
        self._request = request
        self._conversation = Conversation(
            messages=messages, max_turns=max_turns, max_tool_calls=check_max_tool_calls(env.max_tool_calls)
        )
        self._rollout: BaseRollout | None = None
        self._scored = False

    async def run(self) -> BaseRollout:
        """Run to the end, within the environment's time limit."""
        limit = self._env.rollout_timeout_seconds
        clock = asyncio.timeout(limit)
        try:
            async with clock:
                await self._run_in_context()
        except Exception as error:  # beside our own TimeoutError: what a clean-up after it raised
            if not clock.expired():
                raise
            if not isinstance(error, TimeoutError):
                logger.warning("clean-up after rollout %s failed", self._request.rollout_id, exc_info=error)
            late = f"the rollout took longer than {limit} seconds"
            if not self._scored:
                self._fail(RolloutFailure("reward_error" if self._rollout else "harness_timeout", late))
        return self._ended()

    async def _run_in_context(self) -> None:
        entered = False
        try:
            async with self._env.rollout_context(self._request.rollout_id, self._own_example()):
                entered = True
                async with open_tools(
                    self._tool_plan, self._env, self._request.rollout_id, self._own_example()
                ):
                    await self._talk()
                    await self._score()
        except RolloutFailure as failure:
            self._fail(failure)
        except (Exception, SystemExit) as error:
            if not entered:
                self._fail(RolloutFailure("sandbox_error", f"rollout_context: {describe_error(error)}"))
            elif not self._scored:
                raise
            else:  # the result stands; what was left behind is the author's to see
                logger.warning("clean-up after rollout %s failed", self._request.rollout_id, exc_info=error)

    def _own_example(self) -> Example[Payload]:
        """Return the example as this rollout may change it: its siblings never see that."""
        payload: Payload = {PROMPT_FIELD: own_copy(self._conversation.messages), **self._example_args}
        return Example(self._request.example.id, payload)

    async def _talk(self) -> None:
        request = self._request
        context = ModelRequestContext(request.base_url, request.model, request.rollout_id)
        try:
            tool_box = await self._open_tool_box()
            reason = await self._conversation.run(
                self._env.model_client, context, request.model_auth, tool_box, self._next_messages
            )
        except RolloutFailure as failure:
            scorable = failure.termination_reason in self._env.scorable_termination_reasons
            self._end(failure.termination_reason, error=None if scorable else failure.message)
        else:
            self._end(reason, error=None)

    async def _open_tool_box(self) -> ToolBox:
        try:
            definitions = await await_hook(self._env.list_tools())
            return ToolBox(self._env, self._request.rollout_id, definitions)
        except RolloutFailure:
            raise
        except (Exception, SystemExit) as error:  # the author's list_tools: a defect fails this rollout alone
            raise RolloutFailure("tool_error", f"list_tools: {describe_error(error)}") from error

    async def _next_messages(self) -> list[Message]:
        try:
            so_far = self._so_far(FINISHED, rewards=None, error=None)
            return read_messages(await await_hook(self._env.next_messages(so_far)) or ())
        except RolloutFailure:
            raise
        except (Exception, SystemExit) as error:  # the author's hook: a defect fails this rollout alone
            raise RolloutFailure("harness_error", f"next_messages: {describe_error(error)}") from error

    async def _score(self) -> None:
        rollout = self._ended()
        if rollout.rewards is None:
            try:
                rewards = await ask_for_reward(self._env, rollout)
                self._rollout = replace(rollout, rewards=rewards)
            except RolloutFailure as failure:
                self._fail(failure)
            except (Exception, SystemExit) as error:
                # the author's reward: a defect costs this rollout its score
                logger.warning("compute_reward failed for %s", rollout.rollout_id, exc_info=error)
                self._fail(RolloutFailure("reward_error", describe_error(error)))
        self._scored = True

    def _end(self, reason: str, *, error: str | None) -> None:
        """Close the transcript; it waits for scores when the reason allows any and nothing went wrong."""
        scorable = reason in self._env.scorable_termination_reasons and error is None
        self._rollout = self._so_far(reason, rewards=None if scorable else {}, error=error)

    def _so_far(self, reason: str, *, rewards: RewardMap | None, error: str | None) -> BaseRollout:
        return BaseRollout(
            rollout_id=self._request.rollout_id,
            termination_reason=reason,
            rewards=rewards,
            error=error,
            messages=self._conversation.messages,
            example_args=self._example_args,
            split=self._request.split,
        )

    def _fail(self, failure: RolloutFailure) -> None:
        """End the rollout, or take its score away when it has ended already."""
        if self._rollout is None:
            self._end(failure.termination_reason, error=failure.message)
            return
        self._rollout = replace(
            self._rollout,
            termination_reason=settle_termination_reason(
                self._rollout.termination_reason, failure.termination_reason
            ),
            rewards={},
            error=self._rollout.error or failure.message,
        )

    def _ended(self) -> BaseRollout:
        if self._rollout is None:  # a rollout_context that swallowed a cancellation
            self._end("unknown", error="the rollout was interrupted")
        assert self._rollout is not None
        return self._rollout
