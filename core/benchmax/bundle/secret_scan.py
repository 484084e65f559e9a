"""Look through everything that a bundle would carry for secrets, before it leaves the machine."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from benchmax.bundle.bundle import Bundle
from benchmax.bundle.pickle_graph import Node, called, text_of
from benchmax.bundle.secret_patterns import is_placeholder, secret_in, secret_named, secret_variables

_CLASSES = {"_make_skeleton_class": 1, "_make_skeleton_enum": 1}
_QUALNAME_OF_CODE = 12
"""Which argument of a code object is its qualified name."""
_SECRET_FILES = (".env", ".netrc", ".pgpass", ".pypirc", "id_rsa", "id_ed25519", "credentials.json")
MAX_SCANNED_BYTES = 1 << 20
"""Of one data file; secrets stand in small files."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SecretFinding:
    """A place that holds a secret, and what kind it is. Never the secret."""

    place: str
    kind: str

    def __str__(self) -> str:
        return f"{self.place} holds {self.kind}"


def find_secrets(
    bundle: Bundle, root: Node, *, environment: Mapping[str, str] | None = None
) -> list[SecretFinding]:
    """Return every place of a bundle with a secret in it. `root` is the graph of its pickle.

    Secrets are known by their form, by the name they go under, by their type
    (StaticBearerAuth) and by being the value of an environment variable like `OPENAI_API_KEY`.
    """
    variables = secret_variables(environment)
    found = [
        *_in_dependencies(bundle, variables),
        *_in_source(bundle.metadata.env_class_source or "", variables),
        *_in_pickle(root, variables),
        *_in_data(bundle, variables),
    ]
    return list(dict.fromkeys(found))


def _in_text(place: str, text: str, variables: Mapping[str, str]) -> Iterator[SecretFinding]:
    kind = secret_in(text)
    if kind is not None:
        yield SecretFinding(place=place, kind=kind)
    for value, name in variables.items():
        if value in text:
            yield SecretFinding(place=place, kind=f"the value of the environment variable {name}")


def _in_dependencies(bundle: Bundle, variables: Mapping[str, str]) -> Iterator[SecretFinding]:
    for text in bundle.metadata.pip_dependencies:
        name = text.partition(" ")[0]
        _, at, url = text.partition("@ ")
        if at and "@" in url.partition("://")[2].partition("/")[0] and not secret_in(text):
            yield SecretFinding(place=f"dependency {name}", kind="credentials in its URL")
        yield from _in_text(f"dependency {name}", text, variables)


def _in_source(source: str, variables: Mapping[str, str]) -> Iterator[SecretFinding]:
    """Look at the lines of the class's source, and at what is assigned to names like `api_key`."""
    for number, line in enumerate(source.splitlines(), start=1):
        yield from _in_text(f"line {number} of the class's source", line, variables)
    try:
        tree = ast.parse(textwrap.dedent(source))
    except (SyntaxError, ValueError, RecursionError):
        return
    for name, value, line_number in _assignments(tree):
        kind = secret_named(name, value)
        if kind is not None:
            yield SecretFinding(place=f"{name!r} in line {line_number} of the class's source", kind=kind)


def _assignments(tree: ast.AST) -> Iterator[tuple[str, str, int]]:
    """Give name, text and line of every text that is assigned or passed under a name."""
    for node in ast.walk(tree):
        pairs: list[tuple[str, ast.expr | None]] = []
        if isinstance(node, ast.Assign):
            pairs = [(_name(target), node.value) for target in node.targets]
        elif isinstance(node, ast.AnnAssign):
            pairs = [(_name(node.target), node.value)]
        elif isinstance(node, ast.keyword):
            pairs = [(node.arg or "", node.value)]
        elif isinstance(node, ast.Dict):
            pairs = [
                (str(getattr(key, "value", "")), value)
                for key, value in zip(node.keys, node.values, strict=True)
            ]
        elif isinstance(node, ast.arguments):
            named = [*node.posonlyargs, *node.args]
            pairs = [(a.arg, d) for a, d in zip(named[::-1], node.defaults[::-1], strict=False)]
            pairs += [(a.arg, d) for a, d in zip(node.kwonlyargs, node.kw_defaults, strict=True)]
        for name, value in pairs:
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield name, value.value, value.lineno


def _name(target: ast.expr) -> str:
    if isinstance(target, ast.Name):
        return target.id
    return target.attr if isinstance(target, ast.Attribute) else ""


def _in_data(bundle: Bundle, variables: Mapping[str, str]) -> Iterator[SecretFinding]:
    for file in bundle.data.files:
        name = file.path.rpartition("/")[2].lower()
        if name in _SECRET_FILES or name.startswith(".env."):
            yield SecretFinding(place=f"data file {file.path}", kind="secrets, by its name")
        if len(file.content) <= MAX_SCANNED_BYTES:
            text = file.content.decode("utf-8", "replace")
            yield from _in_text(f"data file {file.path}", text, variables)


def _in_pickle(root: Node, variables: Mapping[str, str]) -> Iterator[SecretFinding]:
    """Walk the graph with a label of where one is."""
    seen: set[int] = set()
    waiting = [(root, "")]
    while waiting:
        node, label = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if node is root and node.kind == "tuple" and len(node.parts) == 2:
            waiting += [(node.parts[1], "constructor argument"), (node.parts[0], "the class")]
            continue
        label = _label_of(node) or label
        if node.kind == "atom":
            yield from _in_atom(node.value, label, variables)
        elif called(node) is not None and _is_bearer(node):
            yield SecretFinding(place=f"{label}: StaticBearerAuth", kind="a token")
        for name, value in _entries(node):
            text = text_of(value)
            kind = None if text is None else secret_named(name, text)
            if kind is not None:
                yield SecretFinding(place=_below(label, name), kind=kind)
        waiting += reversed([*_children(node, label)])


def _in_atom(value: object, label: str, variables: Mapping[str, str]) -> Iterator[SecretFinding]:
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, str):
        yield from _in_text(label, value, variables)


def _label_of(node: Node) -> str | None:
    """Return what a class or a piece of code is called, None for anything else."""
    target = called(node)
    if target is None or node.parts[1].kind != "tuple":
        return None
    arguments = node.parts[1].parts
    place = _CLASSES.get(target[1])
    if place is not None and len(arguments) > place:
        return f"class {text_of(arguments[place])}"
    if target[1] == "_make_function" and arguments and arguments[0].kind == "call":
        code = arguments[0].parts[1].parts
        return f"function {text_of(code[_QUALNAME_OF_CODE])}" if len(code) > _QUALNAME_OF_CODE else None
    return None


def _is_bearer(node: Node) -> bool:
    """Say whether a node is a StaticBearerAuth with a token that is more than a placeholder."""
    module, name = called(node) or ("", "")
    if name != "StaticBearerAuth" or not module.startswith("benchmax."):
        return False
    tokens = [text_of(value) for key, value in _state_entries(node) if key == "token"]
    return not any(text is not None and is_placeholder(text) for text in tokens)


def _entries(node: Node) -> Iterator[tuple[str, Node]]:
    """Give the entries of a dict that have text for a name."""
    for what, nodes in node.changes:
        if what == "setitems":
            for key, value in zip(nodes[::2], nodes[1::2], strict=True):
                name = text_of(key)
                if name is not None:
                    yield name, value


def _state_entries(node: Node) -> Iterator[tuple[str, Node]]:
    for what, nodes in node.changes:
        if what == "build":
            yield from _entries(nodes[0])


def _children(node: Node, label: str) -> Iterator[tuple[Node, str]]:
    named = {id(value): name for name, value in _entries(node)}
    for part in node.parts:
        yield part, label
    for _, nodes in node.changes:
        for child in nodes:
            name = named.get(id(child))
            yield child, label if name is None else _below(label, name)


def _below(label: str, name: str) -> str:
    if name == "__globals__":
        return f"{label}, global"
    if label.endswith((" argument", ", global")):
        return f"{label} {name!r}"
    return label if name.startswith("__") and name.endswith("__") else f"{label}.{name}"
