"""Which files an environment is written in: its own module, and what that imports from its own package."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmax.envs import Environment

HOSTS = frozenset({"benchmax", "castform", "builtins", "typing", "abc"})
"""Base classes from here are nobody's environment."""
MAX_FILES = 100
MAX_BYTES = 500_000


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceFile:
    """One file of an environment."""

    path: Path
    module: str
    tree: ast.Module


def list_sources(environment: Environment[Any, Any]) -> list[SourceFile]:
    """Return the environment's own files, its class's first; of a composed one those of its parts.

    Files that cannot be read are left out.
    """
    found: dict[str, SourceFile] = {}
    waiting = [
        module
        for module in [
            *(cls.__module__ for cls in type(environment).__mro__),
            *getattr(environment, "part_modules", ()),
        ]
        if module.partition(".")[0] not in HOSTS
    ]
    while waiting and len(found) < MAX_FILES:
        module = waiting.pop(0)
        if module in found:
            continue
        source = _read(module)
        if source is not None:
            found[module] = source
            waiting += _imports(source)
    return list(found.values())


def _read(module: str) -> SourceFile | None:
    path = _find(module)
    if path is None:
        return None
    try:
        if path.stat().st_size > MAX_BYTES:
            return None
        return SourceFile(path=path, module=module, tree=ast.parse(path.read_bytes()))
    except (OSError, SyntaxError, ValueError):
        return None


def _find(module: str) -> Path | None:
    """Return the file of a module, without importing it when nobody has yet."""
    loaded = sys.modules.get(module)
    file = getattr(loaded, "__file__", None)
    if isinstance(file, str):
        return Path(file) if file.endswith(".py") else None
    package, _, name = module.rpartition(".")
    parent = getattr(sys.modules.get(package), "__file__", None) if package else None
    if loaded is not None or not isinstance(parent, str):
        return None
    folder = Path(parent).parent
    return next((p for p in (folder / f"{name}.py", folder / name / "__init__.py") if p.is_file()), None)


def _imports(source: SourceFile) -> Iterator[str]:
    """Yield the modules of the same top-level package, or beside a lone file, that a file imports."""
    is_package = source.path.name == "__init__.py"
    package = source.module if is_package else source.module.rpartition(".")[0]
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, *([node.module] if node.module else [])])
            names = [base, *(f"{base}.{alias.name}" for alias in node.names)]
        else:
            continue
        yield from (name for name in names if _is_own(name, source))


def _is_own(name: str, source: SourceFile) -> bool:
    top = source.module.partition(".")[0]
    if name.partition(".")[0] == top:
        return True
    path = _find(name)
    return "." not in source.module and path is not None and path.parent == source.path.parent
