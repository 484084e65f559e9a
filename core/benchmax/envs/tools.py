"""Plain Python functions as tools.

The schema that the model reads comes from the function's signature and docstring; what
goes wrong inside the function is told to the model instead of ending the rollout.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from benchmax.envs.shared_types import RolloutFailure, Tool
from benchmax.envs.termination import describe_error
from benchmax.envs.tool_arguments import ArgumentFault, check_arguments
from benchmax.envs.tool_docs import first_paragraph
from benchmax.envs.tool_results import tool_content
from benchmax.envs.tool_schema import check_schema, check_tool_name
from benchmax.envs.tool_signature import ToolSignature
from benchmax.envs.worker_thread import call_in_thread


class DerivedSchema(dict[str, Any]):
    """A schema that comes from the function's type hints, by which arguments are converted too."""


@dataclass(frozen=True, kw_only=True)
class FunctionTool:
    """A function that the model may call, under a name and with a schema.

    Name, description (the docstring's first paragraph) and parameters (from the type hints
    and the docstring) are taken from the function where they are not given. ValueError for
    a name or parameters that no model could use.
    """

    function: Callable[..., object]
    """Plain or async. A plain one runs on the event loop, so one that waits should be async."""
    name: str = ""
    """1 to 64 letters, digits, `_` and `-`."""
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """JSON schema of an object. Given by hand, arguments are held to it but not converted."""
    timeout_seconds: float | None = None
    """Most seconds for one call, in place of the environment's `tool_timeout_seconds`; inf: no limit."""
    exclusive: bool = False
    """Never run beside other calls of its turn, whatever `parallel_tool_calls` says."""
    max_result_chars: int | None = None
    """Most characters of a result, in place of the environment's `max_result_chars`."""
    _signature: ToolSignature | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.name:
            object.__setattr__(self, "name", getattr(self.function, "__name__", type(self.function).__name__))
        check_tool_name(self.name)
        check_limit(f"tool {self.name!r}: timeout_seconds", self.timeout_seconds)
        check_limit(f"tool {self.name!r}: max_result_chars", self.max_result_chars, whole=True)
        if not self.description:
            object.__setattr__(self, "description", first_paragraph(self.function))
        if self.parameters and not isinstance(self.parameters, DerivedSchema):
            check_schema(self.name, self.parameters)
        else:
            object.__setattr__(self, "parameters", DerivedSchema(self._own_signature().schema))

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

    def convert(self, arguments: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Return a model's arguments as the function takes them; ArgumentFault says what does not fit."""
        if isinstance(self.parameters, DerivedSchema):
            try:
                return self._own_signature().convert(arguments)
            except ArgumentFault:
                raise
            except Exception as error:  # the author's validators: told like what the function raises
                raise ArgumentFault(f"Error: {describe_error(error)}") from error
        check_arguments(self.name, arguments, self.parameters)
        return [], dict(arguments)

    async def call(
        self, arguments: Mapping[str, Any], *, in_thread: bool = False, max_chars: int | None = None
    ) -> str | list[Any]:
        """Call the function with a model's arguments and return the content of the tool message."""
        try:
            positional, named = self.convert(arguments)
        except ArgumentFault as fault:
            return str(fault)
        function = partial(self.function, *positional) if positional else self.function
        return await call_function_tool(function, named, in_thread=in_thread, max_chars=max_chars)

    def bound_to(self, owner: object) -> FunctionTool:
        """Return this tool as the owner's, when its function is a method that has no owner yet."""
        if not is_unbound_method(self.function):
            return self
        bound = object.__new__(FunctionTool)
        bound.__dict__.update(self.__dict__, function=self.function.__get__(owner))
        return bound

    def _own_signature(self) -> ToolSignature:
        if self._signature is None:
            signature = ToolSignature(self.name, self.function, skip_first=is_unbound_method(self.function))
            object.__setattr__(self, "_signature", signature)
        assert self._signature is not None
        return self._signature

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_signature": None}  # made again on first use: it does not pickle


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
        tool = (
            item.bound_to(owner)
            if isinstance(item, FunctionTool)
            else FunctionTool(function=_bound(item, owner))
        )
        add_tool(by_name, tool)
    return by_name


def add_tool(by_name: dict[str, FunctionTool], tool: FunctionTool) -> None:
    """Add a tool under its name. ValueError when there is one already."""
    if tool.name in by_name:
        raise ValueError(f"two tools are called {tool.name!r}")
    by_name[tool.name] = tool


async def call_function_tool(
    function: Callable[..., object],
    arguments: Mapping[str, Any],
    *,
    in_thread: bool = False,
    max_chars: int | None = None,
) -> str | list[Any]:
    """Call a function with named arguments and return the content of the tool message.

    Structures come back as JSON text, None as nothing, and an exception as a text that
    names it. Only RolloutFailure passes through, for a function that wants the rollout to
    end. `in_thread` runs a plain function in a worker thread.
    """
    try:
        inspect.signature(function).bind(**arguments)
    except TypeError as error:
        return f"Invalid arguments: {error}."
    except ValueError:  # a function in C that hides its parameters
        pass
    try:
        if in_thread and not inspect.iscoroutinefunction(function):
            result = await call_in_thread(function, arguments)
        else:
            result = function(**arguments)
        if inspect.isawaitable(result):
            result = await result
        return tool_content(result, max_chars=max_chars)
    except RolloutFailure:
        raise
    except ArgumentFault as fault:
        return str(tool_content(str(fault), max_chars=max_chars))
    except Exception as error:  # noqa: BLE001 - the author's tool: what it raises is told to the model
        return str(tool_content(f"Error: {describe_error(error)}", max_chars=max_chars))


def is_unbound_method(function: object) -> bool:
    """Whether this is a function that a class body defines and that waits for its `self`."""
    if not inspect.isfunction(function):
        return False
    outer = function.__qualname__.rpartition(".")[0]
    return (
        bool(outer)
        and not outer.endswith("<locals>")
        and next(iter(inspect.signature(function).parameters), "") == "self"
    )


def check_limit(name: str, limit: float | None, *, whole: bool = False) -> None:
    """Raise ValueError unless a limit is a positive number, a `whole` one an integer, or None."""
    kinds = int if whole else (int, float)
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, kinds) or not limit > 0):
        what = "integer" if whole else "number"
        raise ValueError(f"{name} must be a positive {what} or None, not {limit!r}")


def choose_timeout(tool: FunctionTool | None, default: float | None) -> float | None:
    """Return the time limit of a call in seconds: the tool's own, else the default; None is no limit."""
    limit = default if tool is None or tool.timeout_seconds is None else tool.timeout_seconds
    return None if limit is None or math.isinf(limit) else limit


def choose_max_chars(tool: FunctionTool | None, default: int | None) -> int | None:
    """Return the most characters of a result: the tool's own limit, else the default; None is no limit."""
    return default if tool is None or tool.max_result_chars is None else tool.max_result_chars


def _bound(function: Callable[..., object], owner: object) -> Callable[..., object]:
    name = getattr(function, "__name__", "")
    is_method = inspect.isfunction(function) and inspect.getattr_static(owner, name, None) is function
    return function.__get__(owner) if is_method else function
