"""Which distributions are there wherever benchmax is: its own, and what they require."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import metadata

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

_OWNERS = ("castform", "benchmax")
"""The distributions that benchmax may be part of."""


@cache
def runtime_distributions() -> frozenset[str]:
    """Return the normalised names of all distributions that come with benchmax, its own included."""
    waiting = [(name, frozenset[str]()) for name in _OWNERS]
    seen: set[tuple[str, frozenset[str]]] = set()
    found: set[str] = set()
    while waiting:
        name, extras = waiting.pop()
        key = (canonicalize_name(name), extras)
        if key in seen:
            continue
        seen.add(key)
        try:
            distribution = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue
        found.add(canonicalize_name(name))
        waiting += _requirements(distribution, extras)
    return frozenset(found)


def _requirements(
    distribution: metadata.Distribution, extras: frozenset[str]
) -> Iterator[tuple[str, frozenset[str]]]:
    for text in distribution.requires or ():
        requirement = Requirement(text)
        if requirement.marker is None or any(
            requirement.marker.evaluate({"extra": extra}) for extra in extras or {""}
        ):
            yield requirement.name, frozenset(requirement.extras)
