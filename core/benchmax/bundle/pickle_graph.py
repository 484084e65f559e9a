"""Read a pickle as a graph, without importing or running anything that it names.

The unpickler's stack machine is followed with nodes in place of objects. What would call
something becomes a node that says what would be called, so that a pickle can be searched
and written again.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from benchmax.bundle.errors import BundlingError

Kind = Literal[
    "atom", "global", "tuple", "list", "dict", "set", "frozenset", "bytearray", "call", "new", "new_ex"
]
Change = tuple[Literal["append", "setitems", "additems", "build", "effect"], "list[Node]"]
"""What happens to an object once it is made. `effect`: something is called and its result dropped."""

OLDEST_PROTOCOL = 3
"""Older ones name things as Python 2 does."""
_FRAMING = ("PROTO", "FRAME", "STOP")
_PLAIN = frozenset(
    [
        "BININT",
        "BININT1",
        "BININT2",
        "LONG1",
        "LONG4",
        "BINFLOAT",
        "SHORT_BINUNICODE",
        "BINUNICODE",
        "BINUNICODE8",
        "SHORT_BINBYTES",
        "BINBYTES",
        "BINBYTES8",
    ]
)
"""Opcodes whose argument is the value itself."""
_IMMUTABLE = ("atom", "global", "tuple", "frozenset")


@dataclass(eq=False, slots=True)
class Node:
    """One object of a pickle. Equal immutable values of a pickle are one node."""

    kind: Kind
    value: object = None
    """Of an atom or a bytearray."""
    parts: list[Node] = field(default_factory=list)
    """What it is made from: items, or module and name, or callable and arguments."""
    changes: list[Change] = field(default_factory=list)
    uses: int = 0
    """How often other nodes refer to it; see `count_uses`."""
    is_shared: bool = False
    """Immutable through and through."""


class _Mark:
    """Where a run of stack items starts."""


def parse_pickle(data: bytes) -> Node:
    """Return the root of a pickle. BundlingError when it is damaged or uses what pickles of code do not."""
    try:
        return _Reader().read(data)
    except BundlingError:
        raise
    except (ValueError, IndexError, KeyError, AttributeError, TypeError, UnicodeError) as error:
        raise BundlingError(f"this is not a pickle that can be read: {error}") from error


def walk(root: Node) -> Iterator[Node]:
    """Give every node once, parts before what refers to them last; in reading order."""
    seen: set[int] = set()
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        following = [*node.parts]
        for _, nodes in node.changes:
            following += nodes
        waiting += reversed(following)


def count_uses(root: Node) -> None:
    """Set `uses` of every node. It follows from the content alone, not from how the pickle was written."""
    nodes = list(walk(root))
    for node in nodes:
        node.uses = 0
    for node in nodes:
        for used in (node.parts, *(changed for _, changed in node.changes)):
            for other in used:
                other.uses += 1


def text_of(node: Node) -> str | None:
    """Return the text of a text node, None for any other."""
    return node.value if node.kind == "atom" and isinstance(node.value, str) else None


def global_of(node: Node) -> tuple[str, str] | None:
    """Return module and name of a node that stands for an importable object, None for any other."""
    if node.kind != "global":
        return None
    return text_of(node.parts[0]) or "", text_of(node.parts[1]) or ""


def called(node: Node) -> tuple[str, str] | None:
    """Return module and name of what a node calls or makes an instance of, None for any other."""
    return global_of(node.parts[0]) if node.kind in ("call", "new", "new_ex") else None


class _Reader:
    def __init__(self) -> None:
        self.stack: list[Node | _Mark] = []
        self.memo: dict[int, Node] = {}
        self.shared: dict[object, Node] = {}
        self.steps: dict[str, Callable[[object], None]] = {
            "MARK": lambda _: self.stack.append(_Mark()),
            "NONE": lambda _: self.push_atom(None),
            "NEWTRUE": lambda _: self.push_atom(True),
            "NEWFALSE": lambda _: self.push_atom(False),
            "BYTEARRAY8": lambda value: self.stack.append(Node("bytearray", value=value)),
            "EMPTY_TUPLE": lambda _: self.push("tuple", []),
            "TUPLE1": lambda _: self.push("tuple", self.pop(1)),
            "TUPLE2": lambda _: self.push("tuple", self.pop(2)),
            "TUPLE3": lambda _: self.push("tuple", self.pop(3)),
            "TUPLE": lambda _: self.push("tuple", self.pop_to_mark()),
            "EMPTY_LIST": lambda _: self.push("list", []),
            "EMPTY_DICT": lambda _: self.push("dict", []),
            "EMPTY_SET": lambda _: self.push("set", []),
            "FROZENSET": lambda _: self.push("frozenset", self.pop_to_mark()),
            "STACK_GLOBAL": lambda _: self.push("global", self.pop(2)),
            "GLOBAL": lambda value: self.push("global", [self.atom(t) for t in str(value).split(" ", 1)]),
            "REDUCE": lambda _: self.push("call", self.pop(2)),
            "NEWOBJ": lambda _: self.push("new", self.pop(2)),
            "NEWOBJ_EX": lambda _: self.push("new_ex", self.pop(3)),
            "APPEND": lambda _: self.change("append", self.pop(1)),
            "APPENDS": lambda _: self.change("append", self.pop_to_mark()),
            "SETITEM": lambda _: self.change("setitems", self.pop(2)),
            "SETITEMS": lambda _: self.change("setitems", self.pop_to_mark()),
            "ADDITEMS": lambda _: self.change("additems", self.pop_to_mark()),
            "BUILD": lambda _: self.change("build", self.pop(1)),
            "POP": lambda _: self.drop(),
            "POP_MARK": lambda _: self.drop_to_mark(),
            "MEMOIZE": lambda _: self.memo.__setitem__(len(self.memo), self.top()),
        }
        for name in ("BINPUT", "LONG_BINPUT"):
            self.steps[name] = lambda value: self.memo.__setitem__(int(str(value)), self.top())
        for name in ("BINGET", "LONG_BINGET"):
            self.steps[name] = lambda value: self.stack.append(self.memo[int(str(value))])

    def read(self, data: bytes) -> Node:
        end = 0
        for opcode, value, position in pickletools.genops(data):
            if position == 0 and (
                opcode.name != "PROTO" or not isinstance(value, int) or value < OLDEST_PROTOCOL
            ):
                raise BundlingError("this is not a pickle of protocol 3 or later")
            self.step(opcode.name, value)
            end = (position or 0) + 1
        if end != len(data):
            raise BundlingError("bytes follow the end of the pickle")
        [root] = self.pop(1)
        if self.stack:
            raise BundlingError("the pickle leaves objects on its stack")
        return root

    def step(self, name: str, value: object) -> None:
        if name in self.steps:
            self.steps[name](value)
        elif name in _PLAIN:
            self.push_atom(value)
        elif name not in _FRAMING:
            raise BundlingError(f"this pickle uses {name}, which bundles never do")

    def atom(self, value: object) -> Node:
        key = ("atom", type(value), repr(value) if isinstance(value, float) else value)
        return self.share(key, lambda: Node("atom", value=value, is_shared=True))

    def share(self, key: object, make: Callable[[], Node]) -> Node:
        node = self.shared.get(key)
        if node is None:
            node = self.shared[key] = make()
        return node

    def push_atom(self, value: object) -> None:
        self.stack.append(self.atom(value))

    def push(self, kind: Kind, parts: list[Node]) -> None:
        if kind not in _IMMUTABLE or not all(part.is_shared for part in parts):
            self.stack.append(Node(kind, parts=parts))
            return
        ids = [id(part) for part in parts]
        key = (kind, frozenset(ids) if kind == "frozenset" else tuple(ids))
        self.stack.append(self.share(key, lambda: Node(kind, parts=parts, is_shared=True)))

    def top(self) -> Node:
        node = self.stack[-1]
        if isinstance(node, _Mark):
            raise BundlingError("the pickle has no object where it needs one")
        return node

    def pop(self, count: int) -> list[Node]:
        taken = self.stack[-count:]
        nodes = [item for item in taken if isinstance(item, Node)]
        if len(nodes) != count:
            raise BundlingError("the pickle has no object where it needs one")
        del self.stack[-count:]
        return nodes

    def pop_to_mark(self) -> list[Node]:
        nodes: list[Node] = []
        while isinstance(item := self.stack.pop(), Node):
            nodes.append(item)
        return nodes[::-1]

    def drop_to_mark(self) -> None:
        self.pop_to_mark()

    def change(self, what: Literal["append", "setitems", "additems", "build"], nodes: list[Node]) -> None:
        if nodes:
            self.top().changes.append((what, nodes))

    def drop(self) -> None:
        """Forget the top. A call that was made to set up the object below it stays, as an effect on that."""
        item = self.stack.pop()
        if isinstance(item, _Mark) or item.kind != "call" or not self.stack:
            return
        arguments, owner = item.parts[1], self.stack[-1]
        if isinstance(owner, Node) and arguments.kind == "tuple" and owner in arguments.parts[:1]:
            owner.changes.append(("effect", [item]))
