"""The chat loop: ask the model, answer its tool calls or go on with the dialogue, until something ends it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmax.auth import ModelAuth, ModelRequestContext
from benchmax.envs.base.reply import Reply, read_reply
from benchmax.envs.base.tool_box import ToolBox
from benchmax.envs.model_client import ModelClient
from benchmax.envs.shared_types import Message, Messages, RolloutFailure
from benchmax.envs.termination import FINISHED

if TYPE_CHECKING:
    from collections.abc import Mapping

NO_MORE_CALLS = frozenset({"stop", "tool_calls", "function_call"})
"""Finish reasons of a reply without calls that simply is the last word: the calls decide, not the label."""


@dataclass(kw_only=True)
class Conversation:
    """A transcript that grows; it keeps what was said even when the rollout is cut off."""

    messages: Messages
    max_turns: int
    """Most model calls."""
    max_tool_calls: int | None
    tool_calls: int = 0
    """Calls answered so far."""

    async def run(
        self,
        client: ModelClient,
        context: ModelRequestContext,
        auth: ModelAuth,
        tool_box: ToolBox,
        next_messages: Callable[[], Awaitable[Sequence[Message]]],
    ) -> str:
        """Talk until the end and return the termination reason. RolloutFailure says why there is none.

        `next_messages` is asked what comes after a reply that is the last word; nothing: the end.
        """
        for turn in range(self.max_turns):
            body: Mapping[str, Any] = {"model": context.model, "messages": list(self.messages)}
            if tool_box.definitions:
                body = {**body, "tools": tool_box.definitions}
            reply = read_reply(await client.complete(context, auth, body), turn=turn)
            self.messages.append(reply.message)
            ended = self._reason_to_stop(reply)
            if ended == FINISHED and (more := await next_messages()):
                self.messages.extend(more)
                continue
            if ended is not None:
                return ended
            await tool_box.answer_all(reply.tool_calls, into=self.messages)
            self.tool_calls += len(reply.tool_calls)
        return "max_turns_exceeded"

    def _reason_to_stop(self, reply: Reply) -> str | None:
        if reply.finish_reason == "length":
            return "output_exceeded"
        if reply.tool_calls:
            wanted = self.tool_calls + len(reply.tool_calls)
            over = self.max_tool_calls is not None and wanted > self.max_tool_calls
            return "tool_budget_exceeded" if over else None
        if reply.finish_reason is None:
            raise RolloutFailure("model_error", "the reply has neither tool calls nor a finish reason")
        return FINISHED if reply.finish_reason in NO_MORE_CALLS else reply.finish_reason
