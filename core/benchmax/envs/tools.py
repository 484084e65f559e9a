"""Plain Python functions as tools.

The schema that the model reads comes from the function's signature and docstring; what
goes wrong inside the function is told to the model instead of ending the rollout.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmax.envs.shared_types import RolloutFailure, Tool
from benchmax.envs.termination import describe_error
from benchmax.envs.tool_results import tool_content
from benchmax.envs.tool_schema import make_parameters
from benchmax.envs.worker_thread import call_in_thread


@dataclass(frozen=True, kw_only=True)
class FunctionTool:
    """A function that the model may call, under a name and with a schema.

    Name, description (the docstring's first paragraph) and parameters (from the type
    hints) are taken from the function where they are not given.
    """

    function: Callable[..., object]
    """Plain or async. A plain one runs on the event loop, so one that waits should be async."""
    name: str = ""
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """JSON schema of an object."""

    def __post_init__(self) -> None:
        if not self.name:
            object.__setattr__(self, "name", getattr(self.function, "__name__", type(self.function).__name__))
        if not self.description:
            object.__setattr__(self, "description", _first_paragraph(self.function))
        if not self.parameters:
            object.__setattr__(self, "parameters", make_parameters(self.function))

    def definition(self) -> Tool:
        """Return the tool in OpenAI's form."""
        return {
            "type": "function",
            "function": {
                "name": self.name,
                "description": self.description,
                "parameters": self.parameters,
            },
        }


def bind_tools(
    tools: Iterable[Callable[..., object] | FunctionTool], owner: object
) -> dict[str, FunctionTool]:
    """Return the tools by name. Functions that are methods of the owner's class are bound to the owner.

    ValueError when two tools have one name, TypeError for what cannot be called.
    """
    by_name: dict[str, FunctionTool] = {}
    for item in tools:
        if not isinstance(item, FunctionTool) and not callable(item):
            raise TypeError(
                f"tools holds functions, not {type(item).__name__}; list_tools gives other definitions"
            )
        tool = item if isinstance(item, FunctionTool) else FunctionTool(function=_bound(item, owner))
        if tool.name in by_name:
            raise ValueError(f"two tools are called {tool.name!r}")
        by_name[tool.name] = tool
    return by_name


async def call_function_tool(
    function: Callable[..., object], arguments: Mapping[str, Any], *, in_thread: bool = False
) -> str | list[Any]:
    """Call a function with a model's arguments and return the content of the tool message.

    Structures come back as JSON text, None as nothing, and an exception as a text that
    names it. Only RolloutFailure passes through, for a function that wants the rollout to
    end. `in_thread` runs a plain function in a worker thread.
    """
    try:
        inspect.signature(function).bind(**arguments)
    except TypeError as error:
        return f"Invalid arguments: {error}."
    try:
        if in_thread and not inspect.iscoroutinefunction(function):
            result = await call_in_thread(function, arguments)
        else:
            result = function(**arguments)
        if inspect.isawaitable(result):
            result = await result
        return tool_content(result)
    except RolloutFailure:
        raise
    except Exception as error:  # noqa: BLE001 - the author's tool: what it raises is told to the model
        return f"Error: {describe_error(error)}"


def _first_paragraph(function: Callable[..., object]) -> str:
    return (inspect.getdoc(function) or "").split("\n\n")[0].replace("\n", " ").strip()


def _bound(function: Callable[..., object], owner: object) -> Callable[..., object]:
    name = getattr(function, "__name__", "")
    is_method = inspect.isfunction(function) and inspect.getattr_static(owner, name, None) is function
    return function.__get__(owner) if is_method else function
