"""Which modules a pickle refers to by name, found without importing or running anything."""

from __future__ import annotations

from collections.abc import Iterator

from benchmax.bundle.pickle_graph import Node, called, global_of, parse_pickle, text_of, walk
from benchmax.bundle.sources import Sources

_IMPORTS_FIRST_ARGUMENT = {
    ("cloudpickle.cloudpickle", "subimport"),
    ("importlib", "import_module"),
    ("builtins", "__import__"),
}


def referenced_modules(root: Node) -> list[str]:
    """Return the names of all modules that loading would import, sorted."""
    return sorted({name for node in walk(root) for name in _modules_of(node)})


def named_objects(root: Node) -> set[tuple[str, str]]:
    """Return module and name of every object that loading would look up."""
    return {named for node in walk(root) if (named := global_of(node)) is not None}


def unregistered_local_refs(pickled: bytes) -> list[str]:
    """Return the local modules that a pickle refers to by name and that another machine lacks, sorted.

    Local is what is neither in the standard library nor installed nor benchmax itself.
    BundlingError when this is no pickle.
    """
    sources = Sources(roots=())
    names = referenced_modules(parse_pickle(pickled))
    return [name for name in names if sources.origin_of(name) == "external"]


def _modules_of(node: Node) -> Iterator[str]:
    named = global_of(node)
    if named is not None:
        yield named[0]
    if called(node) in _IMPORTS_FIRST_ARGUMENT and node.parts[1].parts:
        name = text_of(node.parts[1].parts[0])
        if name is not None:
            yield name
