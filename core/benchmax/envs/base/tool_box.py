"""The tools of one rollout: what the model is told about them, and how its calls are answered."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from benchmax.envs.shared_types import Message, RolloutFailure
from benchmax.envs.termination import describe_error
from benchmax.envs.tool_arguments import ArgumentFault, check_arguments, parse_arguments
from benchmax.envs.tool_results import tool_content

if TYPE_CHECKING:
    from benchmax.envs.base.env import BaseEnv


class ToolBox:
    """Answers tool calls of one rollout with the environment's `run_tool`."""

    def __init__(self, env: BaseEnv, rollout_id: str, definitions: Iterable[Mapping[str, Any]]) -> None:
        self._env = env
        self._rollout_id = rollout_id
        self.definitions = [dict(definition) for definition in definitions]
        self._schemas = {_name_of(definition): _schema_of(definition) for definition in self.definitions}

    async def answer_all(self, calls: Sequence[Mapping[str, Any]], *, into: list[Message]) -> None:
        """Append one tool message per call, in order of the calls.

        One call at a time, unless the environment allows `parallel_tool_calls`; then all
        of them finish even if one fails. RolloutFailure ends the rollout; the answers
        before it are kept.
        """
        if not self._env.parallel_tool_calls:
            for call in calls:
                into.append(await self.answer(call))
            return
        answers = await asyncio.gather(*(self.answer(call) for call in calls), return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
            into.append(answer)

    async def answer(self, call: Mapping[str, Any]) -> Message:
        """Return the tool message for one call; the model's own mistakes are answered in words."""
        try:
            content = await self._content(call)
        except ArgumentFault as fault:
            content = str(fault)
        return {"role": "tool", "tool_call_id": call["id"], "content": content}

    async def _content(self, call: Mapping[str, Any]) -> str | list[Any]:
        function = call.get("function")
        if call.get("type") != "function" or not isinstance(function, Mapping):
            raise ArgumentFault(
                f"Unsupported tool call type {call.get('type')!r}: call a function tool instead."
            )
        name, text = function["name"], function["arguments"]
        if name not in self._schemas:
            raise ArgumentFault(f"Unknown tool: {name}")
        arguments = parse_arguments(text)
        check_arguments(name, arguments, self._schemas[name])
        self._check_signature(name, arguments)
        limit = self._env.tool_timeout_seconds
        clock = asyncio.timeout(limit)
        try:
            async with clock:
                result = self._env.run_tool(self._rollout_id, name, **arguments)
                return tool_content(await result if inspect.isawaitable(result) else result)
        except RolloutFailure:
            raise
        except (Exception, SystemExit) as error:
            # the author's run_tool: a defect there ends this rollout alone
            if clock.expired():
                raise ArgumentFault(
                    f"Tool {name!r} took longer than {limit} seconds and was stopped."
                ) from error
            raise RolloutFailure("tool_error", f"tool {name!r}: {describe_error(error)}") from error

    def _check_signature(self, name: str, arguments: Mapping[str, Any]) -> None:
        """Raise ArgumentFault for arguments that an overridden `run_tool` could not even receive."""
        try:
            inspect.signature(self._env.run_tool).bind(self._rollout_id, name, **arguments)
        except TypeError as error:
            raise ArgumentFault(f"Invalid arguments for tool {name!r}: {error}.") from error


def _name_of(definition: Mapping[str, Any]) -> str:
    name = definition["function"]["name"]
    if not isinstance(name, str) or not name:
        raise ValueError(f"a tool needs a name, not {name!r}")
    return name


def _schema_of(definition: Mapping[str, Any]) -> object:
    return definition["function"].get("parameters")
