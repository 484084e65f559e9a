"""Python values of an environment's author as JSON, and back.

JSON itself stays as it is. Tuples, sets, bytes, dates and dictionaries with other keys than text come
back as what they were. Any other object stays where it is: the host gets a stand-in that says what it was.
"""

from __future__ import annotations

import datetime
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

TAG = "$"
MAX_NESTING = 100
_LONG_INTEGER_BITS = 10_000
"""Python reads integers from text up to 4300 digits only."""
_DATES: dict[str, type[Any]] = {
    kind.__name__: kind for kind in (datetime.datetime, datetime.date, datetime.time)
}
_COLLECTIONS: dict[str, type[Any]] = {kind.__name__: kind for kind in (tuple, set, frozenset)}


class StandIn:
    """An object that could not leave its process. Shows the text of the original."""

    def __init__(self, text: str | None) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text or f"<{type(self).__name__} in a worker process>"


class RemotePayload(Mapping[str, Any]):
    """A payload with objects in it that stay in the worker process. To look at, not to compute with.

    It compares, and counts in fingerprints and pins, by the content of the original.
    """

    def __init__(self, view: object, sha256: str) -> None:
        self.view = view
        """Stand-ins in place of the objects."""
        self.example_sha256 = sha256
        """What `castform.plugins.fingerprints.hash_example` gives for the original."""

    def __getitem__(self, key: str) -> Any:
        return self._fields()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields())

    def __len__(self) -> int:
        return len(self._fields())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RemotePayload) and self.example_sha256 == other.example_sha256

    def __hash__(self) -> int:
        return hash(self.example_sha256)

    def __repr__(self) -> str:
        return repr(self.view)

    def _fields(self) -> Mapping[str, Any]:
        return self.view if isinstance(self.view, Mapping) else {}


def can_leave(value: object, depth: int = 0) -> bool:
    """Say whether a value comes back from `decode_value(encode_value(value))` as it was."""
    if value is None or type(value) in (str, bool, float, int, bytes) or type(value) in _DATES.values():
        return True
    if depth > MAX_NESTING:
        return False
    if type(value) is dict:
        return all(can_leave(k, depth + 1) and can_leave(v, depth + 1) for k, v in value.items())
    if type(value) is list or type(value) in _COLLECTIONS.values():
        return all(can_leave(item, depth + 1) for item in value)  # type: ignore[attr-defined]  # a collection
    return False


def encode_value(value: object, depth: int = 0) -> Any:  # JSON
    """Return a value as JSON."""
    kind = type(value)
    if value is None or kind in (str, bool, float):
        return value
    if kind is int:
        assert isinstance(value, int)
        return value if value.bit_length() < _LONG_INTEGER_BITS else _tagged("int", hex(value))
    if depth <= MAX_NESTING:
        if kind is list:
            return [encode_value(item, depth + 1) for item in value]  # type: ignore[attr-defined]
        if kind is dict:
            return _encode_dict(value, depth)  # type: ignore[arg-type]
        if kind.__name__ in _COLLECTIONS and kind is _COLLECTIONS[kind.__name__]:
            return _tagged(kind.__name__, [encode_value(item, depth + 1) for item in value])  # type: ignore[attr-defined]
    if kind is bytes:
        return _tagged("bytes", value.hex())  # type: ignore[attr-defined]
    if kind.__name__ in _DATES and kind is _DATES[kind.__name__]:
        return _tagged(kind.__name__, value.isoformat())  # type: ignore[attr-defined]
    if inspect.iscoroutine(value):
        value.close()
        return _tagged("coroutine", None)
    return _describe(value)


def decode_value(value: Any) -> Any:
    """Return what `encode_value` was given, with stand-ins for what could not leave."""
    if isinstance(value, list):
        return [decode_value(item) for item in value]
    if not isinstance(value, dict):
        return value
    tag = value.get(TAG)
    if tag is None:
        return {key: decode_value(item) for key, item in value.items()}
    content = value["v"]
    if tag in _COLLECTIONS:
        return _COLLECTIONS[tag](decode_value(item) for item in content)
    if tag in _DATES:
        return _DATES[tag].fromisoformat(content)
    return _DECODERS[tag](content)


def _tagged(tag: str, content: object) -> dict[str, object]:
    return {TAG: tag, "v": content}


def _encode_dict(value: dict[object, object], depth: int) -> object:
    if all(type(key) is str for key in value) and TAG not in value:
        return {key: encode_value(item, depth + 1) for key, item in value.items()}
    pairs = [[encode_value(k, depth + 1), encode_value(v, depth + 1)] for k, v in value.items()]
    return _tagged("dict", pairs)


def _describe(value: object) -> object:
    kind = type(value)
    silent = kind.__str__ is object.__str__ and kind.__repr__ is object.__repr__
    try:
        text = None if silent else str(value)
    except Exception as error:  # noqa: BLE001 - the author's own __str__
        text = f"unreadable ({type(error).__name__})"
    return _tagged("object", {"type": kind.__name__, "text": text, "callable": callable(value)})


def _stand_in(content: Mapping[str, Any]) -> object:
    text = content["text"]
    members: dict[str, Any] = {}
    if text is not None:
        members["__str__"] = members["__repr__"] = lambda self: text
    if content["callable"]:
        members["__call__"] = lambda self: None
    bases = (object,) if text is None else (StandIn,)
    made = type(content["type"], bases, members)
    return made() if text is None else made(text)


async def _nothing() -> None:
    return None


_DECODERS: dict[str, Callable[[Any], Any]] = {
    "int": lambda content: int(content, 16),
    "bytes": bytes.fromhex,
    "dict": lambda content: {decode_value(key): decode_value(item) for key, item in content},
    "object": _stand_in,
    "coroutine": lambda content: _nothing(),
}
