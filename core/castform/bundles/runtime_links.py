"""What a bundle's own Python environment gets without declaring it: benchmax, castform, what they need."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

from benchmax.bundle import runtime_distributions
from castform.isolation.runtime_links import package_folders

_NO_MODULES = ("..", "__pycache__", "bin", "Scripts", "share", "/")


def runtime_entries() -> dict[str, Path]:
    """Return name and place of every top-level file and folder of the runtime's distributions.

    They are linked, not installed: it takes no network and no time, works from a checkout
    as from an installation, and shows nothing else of this environment.
    """
    return {**distribution_entries(runtime_distributions()), **package_folders()}


def distribution_entries(names: Iterable[str]) -> dict[str, Path]:
    """Return name and place of every top-level file and folder of these distributions, as they are installed here."""
    entries: dict[str, Path] = {}
    for name in sorted(names):
        distribution = metadata.distribution(name)
        for top in {file.parts[0] for file in distribution.files or ()}:
            place = Path(str(distribution.locate_file(top)))
            if top not in _NO_MODULES and place.suffix != ".pth" and place.exists():
                entries[top] = place.resolve()
    return entries


def runtime_versions() -> dict[str, str]:
    """Return the versions of the runtime's distributions."""
    return {name: metadata.version(name) for name in sorted(runtime_distributions())}
