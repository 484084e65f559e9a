"""Write a pickle so that equal content gives equal bytes, in any process.

A pickle depends on more than its content: on the order of sets, which follows the hash
seed; on which equal strings happen to be one object; on the random ids that cloudpickle
gives to classes. All three are settled here: sets are sorted, equal immutable values are
written once, and ids follow from the content.
"""

from __future__ import annotations

import hashlib
import pickle
import re
import struct
from dataclasses import dataclass, field

from benchmax.bundle.errors import BundlingError
from benchmax.bundle.pickle_graph import Node, called, count_uses, parse_pickle, text_of, walk

_TRACKER_ARGUMENT = {
    ("cloudpickle.cloudpickle", "_make_skeleton_class"): 4,
    ("cloudpickle.cloudpickle", "_make_skeleton_enum"): 5,
    ("cloudpickle.cloudpickle", "_make_typevar"): 5,
}
"""Which argument holds the id under which the loading process finds a class again."""
_REFERENCE_KEYS = ("ref", "schema_ref")
_ADDRESS = re.compile(r":(\d{8,})\b")
_OPCODE = {"global": b"\x93", "call": b"R", "new": b"\x81", "new_ex": b"\x92"}
_SMALL_TUPLES = {1: b"\x85", 2: b"\x86", 3: b"\x87"}
_EMPTY = {"list": b"]", "dict": b"}", "set": b"\x8f"}
_ONE = {"append": (1, b"a"), "setitems": (2, b"s"), "build": (1, b"b"), "effect": (1, b"0")}
_MANY = {"append": b"e", "setitems": b"u", "additems": b"\x90"}


@dataclass(frozen=True, kw_only=True, slots=True)
class CanonicalPickle:
    """A pickle in canonical form."""

    data: bytes
    root: Node
    tracker_ids: dict[str, str]
    """Old to new id of every class that is carried by value."""


def canonical_pickle(data: bytes) -> CanonicalPickle:
    """Return the canonical form of a pickle. BundlingError when it cannot be read."""
    root = parse_pickle(data)
    trackers = _detach_trackers(root)
    _settle_addresses(root)
    count_uses(root)
    root.uses += 1  # by whoever loads it
    writer = _Writer(trackers=set(trackers), prefix="0" * 32)
    written = writer.write(root)
    if trackers:  # their ids follow from the content, so it is written once more with them
        prefix = hashlib.sha256(written).hexdigest()[:32]
        writer = _Writer(trackers=set(trackers), prefix=prefix)
        written = writer.write(root)
    new_ids = {old: writer.tracker_text(key) for key, old in trackers.items() if key in writer.numbers}
    return CanonicalPickle(data=written, root=root, tracker_ids=new_ids)


def _detach_trackers(root: Node) -> dict[int, str]:
    """Give every tracker id a node of its own; return those nodes' ids with the old texts."""
    trackers: dict[int, str] = {}
    for node in list(walk(root)):
        place = _TRACKER_ARGUMENT.get(called(node) or ("", ""))
        if place is None or len(node.parts[1].parts) <= place:
            continue
        old = text_of(node.parts[1].parts[place])
        if old is not None:
            fresh = Node("atom", value=old)
            node.parts[1].parts[place] = fresh
            trackers[id(fresh)] = old
    return trackers


def _settle_addresses(root: Node) -> None:
    """Number the addresses by which the schemas of pydantic models name classes."""
    numbers: dict[str, int] = {}
    renamed: dict[str, Node] = {}
    for node in walk(root):
        for what, nodes in node.changes:
            for place in range(1, len(nodes), 2) if what == "setitems" else ():
                reference = text_of(nodes[place])
                if reference is None or text_of(nodes[place - 1]) not in _REFERENCE_KEYS:
                    continue
                text = _ADDRESS.sub(lambda found: f":{numbers.setdefault(found[1], len(numbers))}", reference)
                if text != reference:
                    fresh = Node("atom", value=text, is_shared=True)
                    nodes[place] = renamed.setdefault(text, fresh)


@dataclass(slots=True)
class _Finish:
    """All parts of a node are written."""

    node: Node
    opcode: bytes


@dataclass(slots=True)
class _Writer:
    trackers: set[int]
    prefix: str | None
    """Of tracker ids. None: the bytes are a sort key, in which all ids look the same."""
    open_sets: set[int] = field(default_factory=set)
    """Sets that are being sorted: inside one of its own elements a set is a placeholder."""
    numbers: dict[int, int] = field(default_factory=dict)
    memo: dict[int, int] = field(default_factory=dict)
    out: bytearray = field(default_factory=bytearray)
    work: list[Node | bytes | _Finish] = field(default_factory=list)

    def write(self, root: Node) -> bytes:
        self.out += b"\x80\x05"
        self.work.append(root)
        while self.work:
            item = self.work.pop()
            if isinstance(item, bytes):
                self.out += item
            elif isinstance(item, _Finish):
                self.finish(item)
            elif (index := self.memo.get(id(item))) is not None:
                self.get(index)
            else:
                self.start(item)
        return bytes(self.out + b".")

    def start(self, node: Node) -> None:
        parts: list[Node | bytes] = [*node.parts]
        if id(node) in self.trackers:
            self.out += _encode(self.tracker_text(id(node)))
            return
        if id(node) in self.open_sets:
            self.out += b"?"
            return
        if node.kind == "atom":
            self.out += _encode(node.value)
            if isinstance(node.value, str | bytes):
                self.memoize(node)
            return
        if node.kind == "tuple":
            if not parts:
                self.out += b")"
                return
            opcode = _SMALL_TUPLES.get(len(parts))
            if opcode is None:
                parts, opcode = [b"(", *parts], b"t"
        elif node.kind == "frozenset":
            parts, opcode = [b"(", *self.arranged(node, node.parts)], b"\x91"
        elif node.kind == "bytearray":
            opcode = _encode_bytearray(node.value)
        else:
            opcode = _EMPTY.get(node.kind) or _OPCODE[node.kind]
        self.work += [_Finish(node, opcode), *reversed(parts)]

    def finish(self, item: _Finish) -> None:
        node = item.node
        self.out += item.opcode
        if (index := self.memo.get(id(node))) is not None:  # it was completed inside one of its parts
            self.out += b"0"
            self.get(index)
            return
        self.memoize(node)
        for what, nodes in reversed(node.changes):
            ordered: list[Node | bytes] = [*nodes]
            if what == "additems":
                ordered = [*self.arranged(node, nodes)]
            count, opcode = _ONE.get(what, (0, b""))
            if len(nodes) == count:
                self.work += [opcode, *reversed(ordered)]
            else:
                self.work += [_MANY[what], *reversed(ordered), b"("]

    def arranged(self, owner: Node, nodes: list[Node]) -> list[Node]:
        inside = {*self.open_sets, id(owner)}

        def key(node: Node) -> bytes:
            return _Writer(trackers=self.trackers, prefix=None, open_sets=inside).write(node)

        return sorted(nodes, key=key)

    def memoize(self, node: Node) -> None:
        if node.uses > 1:
            self.memo[id(node)] = len(self.memo)
            self.out += b"\x94"

    def get(self, index: int) -> None:
        self.out += b"h" + bytes([index]) if index < 256 else b"j" + struct.pack("<I", index)

    def tracker_text(self, key: int) -> str:
        if self.prefix is None:
            return ""
        return f"{self.prefix}-{self.numbers.setdefault(key, len(self.numbers))}"


def _encode(value: object) -> bytes:
    if value is None:
        return b"N"
    if isinstance(value, bool):
        return b"\x88" if value else b"\x89"
    if isinstance(value, int):
        return _encode_integer(value)
    if isinstance(value, float):
        return b"G" + struct.pack(">d", value)
    if isinstance(value, str):
        return _encode_sized(value.encode("utf-8", "surrogatepass"), b"\x8c", b"X", b"\x8d")
    if isinstance(value, bytes):
        return _encode_sized(value, b"C", b"B", b"\x8e")
    raise BundlingError(f"{type(value).__name__} is not a plain value of a pickle")


def _encode_integer(value: int) -> bytes:
    if 0 <= value < 1 << 8:
        return b"K" + bytes([value])
    if 0 <= value < 1 << 16:
        return b"M" + struct.pack("<H", value)
    if -(1 << 31) <= value < 1 << 31:
        return b"J" + struct.pack("<i", value)
    digits = pickle.encode_long(value)
    if len(digits) < 256:
        return b"\x8a" + bytes([len(digits)]) + digits
    return b"\x8b" + struct.pack("<i", len(digits)) + digits


def _encode_sized(content: bytes, short: bytes, medium: bytes, long: bytes) -> bytes:
    if len(content) < 1 << 8:
        return short + bytes([len(content)]) + content
    if len(content) < 1 << 32:
        return medium + struct.pack("<I", len(content)) + content
    return long + struct.pack("<Q", len(content)) + content


def _encode_bytearray(value: object) -> bytes:
    if not isinstance(value, bytes | bytearray):
        raise BundlingError("a bytearray of the pickle holds no bytes")
    return b"\x96" + struct.pack("<Q", len(value)) + bytes(value)
