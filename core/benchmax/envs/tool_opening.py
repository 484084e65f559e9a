"""From what an environment lists in `tools` to the tools of one rollout, and back to nothing."""

from __future__ import annotations

import inspect
import logging
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from benchmax.envs.shared_types import Example, RolloutFailure
from benchmax.envs.termination import describe_error
from benchmax.envs.tool_source import ToolSource
from benchmax.envs.tools import FunctionTool, add_tool, bind_tools
from benchmax.envs.toolset import Toolset, close_toolset, read_toolset

logger = logging.getLogger(__name__)

ToolItem = Callable[..., object] | FunctionTool | type | ToolSource
"""A function, a function with settings, a class of which each rollout gets an instance, or a source."""


@dataclass(frozen=True, kw_only=True)
class ToolPlan:
    """The tools of an environment: what is there already, and what each rollout gets for itself."""

    functions: dict[str, FunctionTool]
    toolsets: tuple[Toolset, ...]
    sources: tuple[ToolSource, ...]

    def known(self) -> dict[str, FunctionTool]:
        """Return the tools by name as far as they are known before a rollout: all but those of sources."""
        tools = dict(self.functions)
        for toolset in self.toolsets:
            for tool in toolset.tools.values():
                add_tool(tools, tool)
        return tools


@dataclass(frozen=True, kw_only=True)
class OpenTools:
    """The tools of the rollout that runs here."""

    owner: object
    """Its environment."""
    tools: dict[str, FunctionTool]
    instances: dict[type, object]


_open_tools: ContextVar[OpenTools | None] = ContextVar("benchmax_open_tools", default=None)


def current_tools(owner: object) -> OpenTools | None:
    """Return the tools of the owner's rollout that runs here, or None outside of one."""
    opened = _open_tools.get()
    return opened if opened is not None and opened.owner is owner else None


def plan_tools(items: Sequence[ToolItem], owner: object) -> ToolPlan:
    """Sort an environment's tools. ValueError or TypeError for what can never be one."""
    classes: list[type] = []
    sources: list[ToolSource] = []
    functions: list[Callable[..., object] | FunctionTool] = []
    for item in items:
        if inspect.isclass(item):
            classes.append(item)
        elif isinstance(item, FunctionTool) or inspect.isroutine(item) or not isinstance(item, ToolSource):
            functions.append(item)
        else:
            sources.append(item)
    plan = ToolPlan(
        functions=bind_tools(functions, owner),
        toolsets=tuple(map(read_toolset, classes)),
        sources=tuple(sources),
    )
    plan.known()  # refuses two tools of one name
    return plan


@asynccontextmanager
async def open_tools(
    plan: ToolPlan, owner: object, rollout_id: str, example: Example[Any]
) -> AsyncIterator[None]:
    """Make the rollout's own tools and put all of them in force here; take them down in reverse order.

    RolloutFailure: one could not be made. Everything that was made before is taken down
    then, too. What goes wrong in taking down is logged.
    """
    opened = OpenTools(owner=owner, tools=dict(plan.functions), instances={})
    contexts: list[tuple[str, AbstractAsyncContextManager[Any]]] = []
    token = None
    try:
        for toolset in plan.toolsets:
            instance = opened.instances[toolset.cls] = toolset.make(example)
            for tool in toolset.tools.values():
                add_tool(opened.tools, tool.bound_to(instance))
        for source in plan.sources:
            for tool in await _enter(source, rollout_id, example, contexts):
                try:
                    add_tool(opened.tools, tool)
                except ValueError as error:
                    raise RolloutFailure("tool_error", f"{error}; give a source a prefix") from error
        token = _open_tools.set(opened)
        yield
    finally:
        if token is not None:
            _open_tools.reset(token)
        await _take_down(contexts, list(opened.instances.values()))


async def _enter(
    source: ToolSource,
    rollout_id: str,
    example: Example[Any],
    contexts: list[tuple[str, AbstractAsyncContextManager[Any]]],
) -> Sequence[FunctionTool]:
    name = str(getattr(source, "name", "") or type(source).__name__)
    try:
        context = source.open(rollout_id, example)
        tools = await context.__aenter__()
        contexts.append((name, context))
        if not all(isinstance(tool, FunctionTool) for tool in tools):
            raise TypeError("a source yields FunctionTools")
    except RolloutFailure:
        raise
    except (Exception, SystemExit) as error:  # the source is foreign code
        raise RolloutFailure("tool_error", f"{name}: {describe_error(error)}") from error
    return tools


async def _take_down(
    contexts: list[tuple[str, AbstractAsyncContextManager[Any]]], instances: list[object]
) -> None:
    """Leave the contexts, then close the instances, all of them even if this is cancelled again and again."""
    interrupted: BaseException | None = None
    for name, context in reversed(contexts):
        try:
            await context.__aexit__(*sys.exc_info())
        except (Exception, SystemExit) as error:  # the rollout's result stands
            logger.warning("closing the tools of %s failed", name, exc_info=error)
        except BaseException as error:  # noqa: BLE001 - cancelled meanwhile: raised once the rest is closed
            interrupted = error
    for instance in reversed(instances):
        try:
            await close_toolset(instance)
        except BaseException as error:  # noqa: BLE001 - as above
            interrupted = error
    if interrupted is not None:
        raise interrupted
