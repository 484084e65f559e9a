"""Imports of a package that nothing gives where it is installed."""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True, slots=True)
class UndeclaredImport:
    """An import that fails here."""

    module: str
    """Top-level name."""
    place: str
    """File below the package's parent, and line."""


def find_undeclared(package: Path) -> list[UndeclaredImport]:
    """Return the imports in a package's files that cannot be found in this Python, one a module.

    Imports inside functions count. Those for the type checker only, and those that the
    file is ready to do without (`except ImportError`), do not.
    """
    found: dict[str, UndeclaredImport] = {}
    for file in sorted(package.rglob("*.py")):
        try:
            tree = ast.parse(file.read_bytes())
        except (SyntaxError, ValueError):  # importing it says more
            continue
        for name, line in _iter_imports(tree.body):
            top = name.partition(".")[0]
            if top not in found and not _exists(top):
                place = f"{file.relative_to(package.parent).as_posix()}:{line}"
                found[top] = UndeclaredImport(module=top, place=place)
    return list(found.values())


def suggest_distribution(module: str) -> str:
    """Return what to declare for a module: the distribution that has it here, or its own name."""
    owners = importlib.metadata.packages_distributions().get(module)
    return owners[0] if owners else module.replace("_", "-")


def _iter_imports(body: list[ast.stmt]) -> Iterator[tuple[str, int]]:
    for node in body:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            if node.module and not node.level:
                yield node.module, node.lineno
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from _iter_imports(node.orelse)
        elif isinstance(node, ast.Try) and any(_catches_import_errors(h) for h in node.handlers):
            for part in (*(h.body for h in node.handlers), node.orelse, node.finalbody):
                yield from _iter_imports(part)
        else:
            for part in _parts(node):
                yield from _iter_imports(part)


def _parts(node: ast.stmt) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        part = getattr(node, name, None)
        if isinstance(part, list):
            yield part
    for name in ("handlers", "cases"):
        for inner in getattr(node, name, ()):
            yield inner.body


def _catches_import_errors(handler: ast.ExceptHandler) -> bool:
    caught = "" if handler.type is None else ast.unparse(handler.type)
    return handler.type is None or any(
        word in caught for word in ("ImportError", "ModuleNotFoundError", "Exception")
    )


def _exists(module: str) -> bool:
    if module in sys.stdlib_module_names:
        return True
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False
