"""The plugin host: what plugins are written with, and how castform finds and runs them.

Names are imported when they are first used, so that listing plugins stays cheap.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from castform.errors import CastformError as CastformError
    from castform.errors import ConfigError as ConfigError
    from castform.errors import MissingError as MissingError
    from castform.errors import UsageError as UsageError
    from castform.plugins.builtin import hookimpl as hookimpl
    from castform.plugins.commands import CommandGroup as CommandGroup
    from castform.plugins.deprecations import PluginDeprecationWarning as PluginDeprecationWarning
    from castform.plugins.engines import load_engine_factory as load_engine_factory
    from castform.plugins.environments import LoadedEnvironment as LoadedEnvironment
    from castform.plugins.environments import load_environment as load_environment
    from castform.plugins.events import CheckpointSaved as CheckpointSaved
    from castform.plugins.events import EvalEnded as EvalEnded
    from castform.plugins.events import GroupScored as GroupScored
    from castform.plugins.events import RunEnded as RunEnded
    from castform.plugins.events import RunInfo as RunInfo
    from castform.plugins.events import RunStarted as RunStarted
    from castform.plugins.events import StepEnded as StepEnded
    from castform.plugins.failure import PluginFailure as PluginFailure
    from castform.plugins.fingerprints import fingerprint_examples as fingerprint_examples
    from castform.plugins.hookspec_version import HOOKSPEC_VERSION as HOOKSPEC_VERSION
    from castform.plugins.loader import load_registry as load_registry
    from castform.plugins.pins import EnvironmentPin as EnvironmentPin
    from castform.plugins.plugin import Plugin as Plugin
    from castform.plugins.registry import Registry as Registry
    from castform.plugins.registry import UnknownPluginError as UnknownPluginError
    from castform.plugins.specs import DatasetSpec as DatasetSpec
    from castform.plugins.specs import EngineSpec as EngineSpec
    from castform.plugins.specs import EnvironmentSpec as EnvironmentSpec
    from castform.plugins.specs import HarnessSpec as HarnessSpec
    from castform.plugins.specs import RewardSpec as RewardSpec
    from castform.plugins.specs import RubricSpec as RubricSpec
    from castform.plugins.specs import SandboxSpec as SandboxSpec
    from castform.plugins.specs import SpecError as SpecError
    from castform.plugins.specs import ToolSpec as ToolSpec
    from castform.plugins.watchers import Watchers as Watchers
    from castform.plugins.watchers import load_watchers as load_watchers

_ERRORS = ("CastformError", "ConfigError", "MissingError", "UsageError")
_HOMES = {
    "builtin": ("hookimpl",),
    "commands": ("CommandGroup",),
    "deprecations": ("PluginDeprecationWarning",),
    "engines": ("load_engine_factory",),
    "environments": ("LoadedEnvironment", "load_environment"),
    "events": (
        "CheckpointSaved",
        "EvalEnded",
        "GroupScored",
        "RunEnded",
        "RunInfo",
        "RunStarted",
        "StepEnded",
    ),
    "failure": ("PluginFailure",),
    "hookspec_version": ("HOOKSPEC_VERSION",),
    "loader": ("load_registry",),
    "fingerprints": ("fingerprint_examples",),
    "pins": ("EnvironmentPin",),
    "plugin": ("Plugin",),
    "registry": ("Registry", "UnknownPluginError"),
    "specs": (
        "DatasetSpec",
        "EngineSpec",
        "EnvironmentSpec",
        "HarnessSpec",
        "RewardSpec",
        "RubricSpec",
        "SandboxSpec",
        "SpecError",
        "ToolSpec",
    ),
    "watchers": ("Watchers", "load_watchers"),
}
_HOME_OF = {name: f"{__name__}.{home}" for home, names in _HOMES.items() for name in names}
_HOME_OF |= dict.fromkeys(_ERRORS, "castform.errors")
__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> Any:  # whatever the submodule holds under this name
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)
