"""What the names in a file stand for, and which of its functions run when."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(slots=True)
class Names:
    """Imported names of a file, each with the dotted name that it stands for, and its functions."""

    imported: dict[str, str] = field(default_factory=dict)
    functions: dict[str, list[Function]] = field(default_factory=dict)

    def resolve(self, node: ast.expr) -> str | None:
        """Return the dotted name of `time.sleep` or of an alias of it; None where its root is no import."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id not in self.imported:
            return None
        return ".".join([self.imported[node.id], *reversed(parts)])


def read_names(tree: ast.Module) -> Names:
    """Collect imports and functions, nested ones too."""
    names = Names()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                root = alias.name if alias.asname else alias.name.partition(".")[0]
                names.imported[alias.asname or root] = root
        elif isinstance(node, ast.ImportFrom) and not node.level:
            for alias in node.names:
                names.imported[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        elif isinstance(node, Function):
            names.functions.setdefault(node.name, []).append(node)
    return names


def own_nodes(function: Function) -> Iterator[ast.AST]:
    """Yield what runs when the function's body runs: without functions and lambdas defined in it."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop(0)
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            waiting += ast.iter_child_nodes(node)


def called_names(function: Function) -> set[str]:
    """Return the names that a function calls as `f(...)` or `self.f(...)`."""
    names: set[str] = set()
    for node in own_nodes(function):
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Name):
            names.add(node.func.id)
        elif isinstance(node.func, ast.Attribute) and _is_self(node.func.value):
            names.add(node.func.attr)
    return names


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def reachable(start: Iterable[str], files: Iterable[Names]) -> set[int]:
    """Return the ids of the functions that run when those of the given names do, over all files."""
    functions: dict[str, list[Function]] = {}
    for names in files:
        for name, found in names.functions.items():
            functions.setdefault(name, []).extend(found)
    seen: set[int] = set()
    waiting = [function for name in start for function in functions.get(name, ())]
    while waiting:
        function = waiting.pop()
        if id(function) in seen:
            continue
        seen.add(id(function))
        waiting += [f for name in called_names(function) for f in functions.get(name, ())]
    return seen
