"""Play scripts to an environment as if they were a model: one script a sibling."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any

from benchmax.envs import Environment, Example
from castform.calls import ModelCall, Sampling
from castform.rollouts import RolloutGroup, Split, run_group
from castform.scripted_endpoint import ScriptedEndpoint
from castform.scripted_replies import Answer, Fault, Reply, Script, ScriptedRequest, make_reply

_SAID = ("role", "content", "reasoning_content", "tool_calls", "tool_call_id", "name")


class Playback:
    """A scripted server for as long as the block lasts; `play` runs one group on it."""

    def __init__(self) -> None:
        self._scripts: dict[str, Script] = {}
        self._endpoint = ScriptedEndpoint(lambda request: self._scripts[request.session_id](request))

    async def __aenter__(self) -> Playback:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._endpoint.aclose()

    async def play(
        self,
        environment: Environment[Any, Any],
        example: Example[Any],
        scripts: Sequence[Script],
        *,
        group_id: str,
        split: Split,
        weights: Mapping[str, float],
        timeout_seconds: float,
    ) -> RolloutGroup:
        """Run one group whose sibling i is answered by `scripts[i]`. No other group may have the id by then."""
        by_session = {f"{group_id}-{i}": script for i, script in enumerate(scripts)}
        self._scripts |= by_session
        try:
            return await run_group(
                environment,
                example,
                endpoint=self._endpoint,
                split=split,
                group_id=group_id,
                size=len(scripts),
                sampling=Sampling(),
                seed=0,
                weights=weights,
                timeout_seconds=timeout_seconds,
            )
        finally:
            for session_id in by_session:
                del self._scripts[session_id]


def script_of_calls(calls: Sequence[ModelCall], termination_reason: str) -> Script:
    """Return a script that gives a rollout's recorded replies again.

    A request with the messages of a recorded one gets that one's reply; a request that was
    never made gets the reply of its place, and past the last one an error: the context budget's,
    when the rollout ended by it.
    """
    full = termination_reason == "context_exceeded"
    end = Fault(
        status=400,
        message="the recorded rollout made no such request",
        code="context_budget_exceeded" if full else None,
    )
    by_messages: dict[str, list[ModelCall]] = {}
    for call in calls:
        by_messages.setdefault(conversation_key(call.messages), []).append(call)
    by_place = {(call.index, call.choice): call for call in calls}

    def answer(request: ScriptedRequest) -> Answer:
        known = by_messages.get(conversation_key(request.messages))
        if known:
            return _answer(known.pop(0) if len(known) > 1 else known[0])
        call = by_place.get((request.index, request.choice))
        return end if call is None else _answer(call)

    return answer


def _answer(call: ModelCall) -> Answer:
    reply = make_reply(call.reply)
    return replace(reply, finish_reason=call.finish_reason) if isinstance(reply, Reply) else reply


def prompts_of(calls: Sequence[ModelCall]) -> set[str]:
    """Return what a rollout asked; other prompts the second time are a conversation that went elsewhere."""
    return {conversation_key(call.messages) for call in calls}


def conversation_key(messages: Sequence[Mapping[str, Any]]) -> str:
    """Return what tells one conversation from another: what was said and called, not a server's extra fields."""
    plain = [
        {name: value for name in _SAID if (value := message.get(name)) not in (None, "", [], ())}
        for message in messages
    ]
    return json.dumps(plain, sort_keys=True, default=str)
