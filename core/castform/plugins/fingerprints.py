"""Name a list of examples by what is in it, the same on every machine and in every process."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmax.envs import Example

MARK_CHARACTERS = 8
MOST_MARKED = 50_000
"""More examples than this are counted and fingerprinted, but not told apart."""
MAX_NESTING = 100
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class ExampleMarks:
    """A fingerprint of examples, and enough to find the first one that changed."""

    sha256: str
    count: int
    marks: str = ""
    """The first 8 hex digits of every example's own hash, in order; empty beyond 50,000 examples."""

    def as_dict(self) -> dict[str, Any]:
        return {"count": self.count, "marks": self.marks}


def fingerprint_examples(examples: Sequence[Example[Any]]) -> str:
    """Return the sha256 (hex) over the examples' ids and payloads, in order.

    Payloads that are JSON count by their canonical form (key order does not matter, `1.0` is `1`).
    Others count by type and content: the fields of dataclasses and pydantic models, the items of
    containers (sets sorted), the bytes of arrays, the attributes of objects, and, where nothing
    else is known, the repr without memory addresses. None of it depends on the process.
    """
    return mark_examples(examples).sha256


def mark_examples(examples: Sequence[Example[Any]]) -> ExampleMarks:
    """Return the fingerprint of the examples, their number and a mark for each."""
    digest = hashlib.sha256()
    marks: list[str] = []
    for example in examples:
        own = hash_example(example)
        digest.update(f"{own}\n".encode())
        if len(examples) <= MOST_MARKED:
            marks.append(own[:MARK_CHARACTERS])
    return ExampleMarks(sha256=digest.hexdigest(), count=len(examples), marks="".join(marks))


def hash_example(example: Example[Any]) -> str:
    """Return the sha256 (hex) of one example's id and payload."""
    from benchmax.envs import canonical_example_id
    from castform.workers.values import RemotePayload

    if isinstance(example.payload, RemotePayload):
        return example.payload.example_sha256
    value = {"id": example.id, "payload": example.payload}
    try:
        return canonical_example_id(value)
    except ValueError:
        text = json.dumps(_describe(value, 0), sort_keys=True)
        return hashlib.sha256(f"described\n{text}".encode()).hexdigest()


def first_difference(before: Mapping[str, Any], after: ExampleMarks) -> int | None:
    """Return the place (from 0) where marks differ first, or None when that is not known."""
    old, new = str(before.get("marks", "")), after.marks
    if not old or not new:
        return None
    size = MARK_CHARACTERS
    for place in range(min(len(old), len(new)) // size):
        if old[place * size : (place + 1) * size] != new[place * size : (place + 1) * size]:
            return place
    return min(len(old), len(new)) // size


def _describe(value: object, depth: int) -> object:
    if depth > MAX_NESTING:
        return "..."
    if value is None or type(value) in (bool, int, str):
        return value
    if isinstance(value, (bytes, bytearray)):
        return ["bytes", hashlib.sha256(value).hexdigest()]
    if isinstance(value, Mapping):
        pairs = [[_describe(k, depth + 1), _describe(v, depth + 1)] for k, v in value.items()]
        return ["mapping", sorted(pairs, key=json.dumps)]
    if isinstance(value, (list, tuple)):
        return [_describe(item, depth + 1) for item in value]
    if isinstance(value, (set, frozenset)):
        return ["set", sorted((_describe(item, depth + 1) for item in value), key=json.dumps)]
    return [type(value).__qualname__, _content(value, depth)]


def _content(value: object, depth: int) -> object:
    if isinstance(value, Enum):
        return value.name
    try:
        if is_dataclass(value):
            return {f.name: _describe(getattr(value, f.name), depth + 1) for f in fields(value)}
        if callable(dump := getattr(value, "model_dump", None)):
            return _describe(dump(), depth + 1)
        if callable(read := getattr(value, "tobytes", None)):
            kind = [str(getattr(value, name, "")) for name in ("dtype", "shape", "mode", "size")]
            return [*kind, hashlib.sha256(read()).hexdigest()]
        text = _ADDRESS.sub("", repr(value))
    except Exception as error:  # noqa: BLE001 - the payload's class is the author's code
        return f"unreadable ({type(error).__name__})"
    if type(value).__repr__ is object.__repr__ and hasattr(value, "__dict__"):
        return _describe(vars(value), depth + 1)
    return text
