"""Look into a bundle without running anything of it."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from benchmax.bundle.bundle import Bundle
from benchmax.bundle.pickle_graph import parse_pickle
from benchmax.bundle.references import referenced_modules
from benchmax.bundle.secret_scan import SecretFinding, find_secrets


@dataclass(frozen=True, kw_only=True, slots=True)
class Inspection:
    """What a bundle's pickle shows of itself."""

    packages: tuple[str, ...]
    """Top-level packages outside the standard library that loading imports. Code that runs
    later may import more."""
    secrets: tuple[SecretFinding, ...]


def inspect_pickle(bundle: Bundle) -> Inspection:
    """Return what loading a bundle would import, and the secrets in it. BundlingError when it is damaged."""
    root = parse_pickle(bundle.pickled)
    tops = {name.partition(".")[0] for name in referenced_modules(root)}
    return Inspection(
        packages=tuple(sorted(tops - sys.stdlib_module_names)),
        secrets=tuple(find_secrets(bundle, root)),
    )
