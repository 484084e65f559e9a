"""Whether the extras of a distribution are installed, from metadata: nothing is imported."""

from __future__ import annotations

import importlib.metadata

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name


def list_extras(distribution: str) -> list[str]:
    """Return the extras a distribution has; none when it is not installed."""
    try:
        return importlib.metadata.metadata(distribution).get_all("Provides-Extra") or []
    except importlib.metadata.PackageNotFoundError:
        return []


def find_missing(distribution: str, extra: str) -> list[str] | None:
    """Return the requirements of an extra that are not installed, as written without the marker.

    None when the distribution has no such extra (or is not installed itself).
    """
    if canonicalize_name(extra) not in {canonicalize_name(e) for e in list_extras(distribution)}:
        return None
    return _find_missing(distribution, extra, seen=set())


def _find_missing(distribution: str, extra: str, seen: set[tuple[str, str]]) -> list[str]:
    key = (canonicalize_name(distribution), canonicalize_name(extra))
    if key in seen:
        return []
    seen.add(key)
    missing: list[str] = []
    for text in importlib.metadata.requires(distribution) or []:
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            continue
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            continue  # not of an extra: pip saw to it
        if not requirement.marker.evaluate({"extra": extra}):
            continue
        if not _is_installed(requirement):
            missing.append(f"{requirement.name}{requirement.specifier}")
            continue
        for inner in sorted(requirement.extras):
            missing += _find_missing(requirement.name, inner, seen)
    return missing


def _is_installed(requirement: Requirement) -> bool:
    try:
        version = importlib.metadata.version(requirement.name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return requirement.specifier.contains(version, prereleases=True)
