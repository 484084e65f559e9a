"""The host's side of bundles: make one from a file, and try one in a process of its own."""

from __future__ import annotations

from castform.bundles.make import MadeBundle, make_bundle
from castform.bundles.own_venv import OwnVenv, prepare_venv
from castform.bundles.report import TrialOptions, TrialReport
from castform.bundles.stored import open_bundle
from castform.bundles.trial import try_bundle

__all__ = [
    "MadeBundle",
    "OwnVenv",
    "TrialOptions",
    "TrialReport",
    "make_bundle",
    "open_bundle",
    "prepare_venv",
    "try_bundle",
]
