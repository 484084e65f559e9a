"""Find imports inside functions: a bundle carries objects, and what a function imports later is none yet."""

from __future__ import annotations

import builtins
import dis
import importlib
import importlib.resources
import pkgutil
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any

_IMPORTERS = (importlib.import_module, builtins.__import__, importlib.resources.files, pkgutil.get_data)
"""What takes the name of a module. The last two look for a package's data files."""
_BETWEEN = {"CACHE", "EXTENDED_ARG", "PUSH_NULL", "PRECALL", "NOP", "RESUME", "COPY_FREE_VARS"}
"""Instructions that may stand between a callable and its first argument."""
_COMPUTING = (
    "BINARY_OP",
    "BUILD_STRING",
    "FORMAT_VALUE",
    "FORMAT_SIMPLE",
    "FORMAT_WITH_SPEC",
    "CONVERT_VALUE",
)
_ATTRIBUTE = ("LOAD_ATTR", "LOAD_METHOD")
"""Right after a text: a method of it, which makes another text."""


def imported_names(function: FunctionType) -> Iterator[str]:
    """Give the absolute name of every module that a function's code imports when it runs.

    Import statements, and `import_module("x")` and `__import__("x")` with the name written
    out. A name that is computed when the code runs is not seen.
    """
    package = function.__globals__.get("__package__") or ""
    for code in _codes(function.__code__):
        yield from _names_in(code, package, function.__globals__)


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


# Any: a module's globals and the arguments of instructions are arbitrary objects.
def _names_in(code: CodeType, package: str, module_globals: dict[str, Any]) -> Iterator[str]:
    instructions = [i for i in dis.get_instructions(code) if i.opname not in _BETWEEN]
    for index, instruction in enumerate(instructions):
        if instruction.opname == "IMPORT_NAME":
            level, members = instructions[index - 2].argval, instructions[index - 1].argval
            yield from _statement_names(instruction.argval, level, members, package)
        elif index + 1 < len(instructions) and _is_importer(instruction, module_globals):
            name = _literal(instructions[index + 1 :])
            if name:
                level = len(name) - len(name.lstrip("."))
                yield _absolute(name.lstrip("."), level, package)


def _literal(following: list[dis.Instruction]) -> str | None:
    """Return the text of a call's first argument when it is written out whole."""
    if following[0].opname != "LOAD_CONST" or not isinstance(following[0].argval, str):
        return None
    for place, instruction in enumerate(following[1:]):
        if instruction.opname.startswith("CALL"):
            break
        if instruction.opname in _COMPUTING or (place == 0 and instruction.opname in _ATTRIBUTE):
            return None
    return following[0].argval


def _statement_names(name: str, level: Any, members: Any, package: str) -> Iterator[str]:
    depth = level if isinstance(level, int) else 0
    module = _absolute(name, depth, package)
    if name or not isinstance(members, tuple):
        yield module
    else:  # from . import a, b
        yield from (f"{module}.{member}" if module else member for member in members)


def _absolute(name: str, level: int, package: str) -> str:
    if not level:
        return name
    parts = package.split(".") if package else []
    base = ".".join(parts[: len(parts) - level + 1])
    return ".".join(part for part in (base, name) if part)


def _is_importer(instruction: dis.Instruction, module_globals: dict[str, Any]) -> bool:
    if not instruction.opname.startswith("LOAD_") or instruction.opname == "LOAD_CONST":
        return False
    name = instruction.argval
    if name in ("import_module", "__import__"):
        return True
    value = module_globals.get(name) if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME") else None
    return any(value is importer for importer in _IMPORTERS)  # not by ==, which arrays answer by arrays
