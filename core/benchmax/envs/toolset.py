"""A class whose public methods are tools, and of which each rollout has an instance of its own."""

from __future__ import annotations

import inspect
import logging
from dataclasses import dataclass
from typing import Any

from benchmax.envs.shared_types import Example, RolloutFailure
from benchmax.envs.termination import describe_error
from benchmax.envs.tool_closing import see_through
from benchmax.envs.tools import FunctionTool, add_tool

logger = logging.getLogger(__name__)

CLOSERS = ("aclose", "close")
"""Methods that are called at the end of the rollout, the first that there is; never tools."""


@dataclass(frozen=True, kw_only=True)
class Toolset:
    """What a class offers, found once."""

    cls: type
    takes_example: bool
    tools: dict[str, FunctionTool]
    """By name; methods without an owner yet."""

    def make(self, example: Example[Any]) -> object:
        """Return an instance for one rollout. RolloutFailure when the class cannot make one."""
        try:
            return self.cls(example) if self.takes_example else self.cls()
        except RolloutFailure:
            raise
        except (Exception, SystemExit) as error:  # the author's __init__
            raise RolloutFailure("tool_error", f"{self.cls.__name__}: {describe_error(error)}") from error


def read_toolset(cls: type) -> Toolset:
    """Return the tools of a class: its own and inherited methods whose names do not start with `_`.

    TypeError: no such method, or an `__init__` that wants more than the example. ValueError:
    a method that no model could call.
    """
    attributes = {name: value for base in reversed(cls.__mro__[:-1]) for name, value in vars(base).items()}
    tools: dict[str, FunctionTool] = {}
    for name, value in attributes.items():
        if name.startswith("_") or name in CLOSERS:
            continue
        if isinstance(value, FunctionTool):
            add_tool(tools, value)
        elif inspect.isfunction(value):
            add_tool(tools, FunctionTool(function=value))
        elif isinstance(value, (staticmethod, classmethod)):
            add_tool(tools, FunctionTool(function=getattr(cls, name)))
    if not tools:
        raise TypeError(f"{cls.__name__} has no public methods that could be tools")
    return Toolset(cls=cls, takes_example=_takes_example(cls), tools=tools)


async def close_toolset(instance: object) -> None:
    """Call the instance's `aclose` or `close`, also when the rollout is being cancelled; what it raises is logged."""
    closer = next((getattr(instance, name) for name in CLOSERS if hasattr(instance, name)), None)
    if closer is None:
        return

    async def close() -> None:
        ended = closer()
        if inspect.isawaitable(ended):
            await ended

    try:
        await see_through(close())
    except (Exception, SystemExit) as error:  # the author's close: the rollout's result stands
        logger.warning("closing the tools of %s failed", type(instance).__name__, exc_info=error)


def _takes_example(cls: type) -> bool:
    try:
        parameters = list(inspect.signature(cls).parameters.values())
    except (TypeError, ValueError):
        return False
    positional = [
        each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
    ]
    needed = [
        each
        for each in parameters
        if each.default is each.empty and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
    ]
    if len(needed) > 1 or (needed and needed != positional[:1]):
        raise TypeError(
            f"{cls.__name__}.__init__ wants {', '.join(each.name for each in needed)}; "
            "the tools of a rollout are made with its example or with nothing"
        )
    return bool(needed) or bool(positional and positional[0].name == "example")
