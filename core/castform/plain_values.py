"""The forms in which objects that JSON does not know are stored, and told by a worker to its host: the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, is_dataclass


def make_plain(value: object) -> object:
    """Return a dataclass or mapping as a dict, a set or tuple as a list, anything else as text.

    For `json.dumps(default=…)`, which asks again of what is in them.
    """
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (set, frozenset, tuple)):
        return list(value)
    return str(value)
