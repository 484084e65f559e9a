"""The tools that a row defines."""

from __future__ import annotations

from collections.abc import Iterator

from benchmax.sft.issues import Fault
from benchmax.sft.keys import key_faults
from benchmax.sft.limits import MAX_TOOLS
from benchmax.sft.wording import shown

TOOL_KEYS = ("type", "function")
FUNCTION_KEYS = ("name", "description", "parameters")


def tools_faults(tools: object) -> Iterator[Fault]:
    """Yield what is wrong with the value of a row's `tools`."""
    if not isinstance(tools, list) or type(tools) is not list:
        yield Fault("tools_not_list", "$.tools", f"tools is {shown(tools)}; it is a list, or left out")
        return
    if len(tools) > MAX_TOOLS:
        yield Fault("too_many_tools", "$.tools", f"{len(tools)} tools; a row has at most {MAX_TOOLS}")
    names: set[str] = set()
    for index, tool in enumerate(tools):
        yield from _tool_faults(tool, f"$.tools[{index}]", names)


def function_names(tools: object) -> frozenset[str]:
    """Return the names of the functions that are defined, as far as they can be read."""
    functions = [tool.get("function") for tool in tools if type(tool) is dict] if type(tools) is list else []
    names = [function.get("name") for function in functions if type(function) is dict]
    return frozenset(name for name in names if type(name) is str and name)


def _tool_faults(tool: object, location: str, names: set[str]) -> Iterator[Fault]:
    if not isinstance(tool, dict) or type(tool) is not dict:
        yield Fault("tool_not_object", location, f"a tool is an object, not {shown(tool)}")
        return
    yield from key_faults(tool, TOOL_KEYS, location, what="a tool")
    kind = tool.get("type")
    if type(kind) is not str or kind != "function":
        found = shown(kind) if "type" in tool else "missing"
        yield Fault("tool_type", f"{location}.type", f'the type of a tool is "function", here it is {found}')
    place = f"{location}.function"
    if "function" not in tool:
        yield Fault("tool_function_missing", place, "a tool has a function with name and parameters")
        return
    function = tool["function"]
    if not isinstance(function, dict) or type(function) is not dict:
        yield Fault(
            "tool_function_not_object", place, f"the function of a tool is an object, not {shown(function)}"
        )
        return
    yield from key_faults(function, FUNCTION_KEYS, place, what="the function of a tool")
    yield from _name_faults(function.get("name"), f"{place}.name", names)
    yield from _parameters_faults(function, f"{place}.parameters")
    if "description" in function and type(function["description"]) is not str:
        found = shown(function["description"])
        yield Fault(
            "tool_description_not_string", f"{place}.description", f"description is {found}, not a string"
        )


def _name_faults(name: object, location: str, names: set[str]) -> Iterator[Fault]:
    if not isinstance(name, str) or type(name) is not str or not name:
        yield Fault("tool_name_empty", location, "the function of a tool has a non-empty string as its name")
    elif name in names:
        yield Fault("tool_name_duplicate", location, f"a tool before this one is called {shown(name)} too")
    else:
        names.add(name)


def _parameters_faults(function: dict[object, object], location: str) -> Iterator[Fault]:
    if "parameters" not in function:
        yield Fault(
            "tool_parameters_missing",
            location,
            'a function has parameters; {"type":"object"} when it takes none',
        )
        return
    parameters = function["parameters"]
    if not isinstance(parameters, dict) or type(parameters) is not dict:
        yield Fault(
            "tool_parameters_not_object", location, f"parameters is {shown(parameters)}, not an object"
        )
    elif "type" in parameters and not (type(parameters["type"]) is str and parameters["type"] == "object"):
        found = shown(parameters["type"])
        yield Fault(
            "tool_parameters_type", f"{location}.type", f'parameters are of type "object", not {found}'
        )
