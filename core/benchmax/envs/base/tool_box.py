"""The tools of one rollout: what the model is told about them, and how its calls are answered."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from benchmax.envs.base.hooks import await_hook
from benchmax.envs.shared_types import Message, RolloutFailure
from benchmax.envs.termination import describe_error
from benchmax.envs.tool_arguments import ArgumentFault, check_arguments, parse_arguments
from benchmax.envs.tool_faults import cut
from benchmax.envs.tool_results import tool_content
from benchmax.envs.tool_schema import check_schema
from benchmax.envs.tools import choose_max_chars, choose_timeout

if TYPE_CHECKING:
    from benchmax.envs.base.env import BaseEnv


class ToolBox:
    """Answers tool calls of one rollout with the environment's `run_tool`."""

    def __init__(self, env: BaseEnv, rollout_id: str, definitions: Iterable[Mapping[str, Any]]) -> None:
        self._env = env
        self._rollout_id = rollout_id
        self._tools = env.rollout_tools()
        self.definitions = [dict(definition) for definition in definitions]
        self._schemas = {_name_of(definition): _schema_of(definition) for definition in self.definitions}

    async def answer_all(self, calls: Sequence[Mapping[str, Any]], *, into: list[Message]) -> None:
        """Append one tool message per call, in order of the calls.

        One call at a time, unless the environment allows `parallel_tool_calls`; then
        neighbours run side by side, except for exclusive tools, and all of them finish even
        if one fails. RolloutFailure ends the rollout; the answers before it are kept.
        """
        for together in self._batches(calls):
            if len(together) == 1:
                into.append(await self.answer(together[0]))
                continue
            answers = await asyncio.gather(*(self.answer(call) for call in together), return_exceptions=True)
            for answer in answers:
                if isinstance(answer, BaseException):
                    raise answer
                into.append(answer)

    def _batches(self, calls: Sequence[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
        """Return the calls in order, those in one list that may run at the same time."""
        batches: list[list[Mapping[str, Any]]] = []
        open_to_more = False
        for call in calls:
            tool = self._tools.get(_called_name(call))
            alone = not self._env.parallel_tool_calls or (tool is not None and tool.exclusive)
            if open_to_more and not alone:
                batches[-1].append(call)
            else:
                batches.append([call])
            open_to_more = not alone
        return batches

    async def answer(self, call: Mapping[str, Any]) -> Message:
        """Return the tool message for one call; the model's own mistakes are answered in words."""
        try:
            content = await self._content(call)
        except ArgumentFault as fault:
            content = tool_content(str(fault))
        return {"role": "tool", "tool_call_id": call["id"], "content": content}

    async def _content(self, call: Mapping[str, Any]) -> str | list[Any]:
        function = call.get("function")
        if call.get("type") != "function" or not isinstance(function, Mapping):
            raise ArgumentFault(
                f"Unsupported tool call type {cut(str(call.get('type')))!r}: call a function tool instead."
            )
        name, text = function["name"], function["arguments"]
        if name not in self._schemas:
            raise ArgumentFault(f"Unknown tool: {cut(name)}")
        tool = self._tools.get(name)
        arguments = parse_arguments(text)
        if tool is None:
            check_arguments(name, arguments, self._schemas[name])
        else:
            tool.convert(arguments)
        self._check_signature(name, arguments)
        limit = choose_timeout(tool, self._env.tool_timeout_seconds)
        max_chars = choose_max_chars(tool, self._env.max_result_chars)
        clock = asyncio.timeout(limit)
        try:
            async with clock:
                running = self._env.run_tool(self._rollout_id, name, **arguments)
                result = await await_hook(running)
                return tool_content(result, max_chars=max_chars)
        except (RolloutFailure, ArgumentFault):
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
    schema = definition["function"].get("parameters")
    if isinstance(schema, Mapping):
        check_schema(definition["function"]["name"], schema)
    return schema


def _called_name(call: Mapping[str, Any]) -> str:
    function = call.get("function")
    return str(function.get("name")) if isinstance(function, Mapping) else ""
