"""What plugins may still use and soon cannot: the table, and what a plugin that uses it is told.

A hook, an argument of one or a field of a spec is first announced here. For one minor
release at least it goes on working, and whoever loads a plugin that uses it gets one
warning; from the release on that is named as its end, such a plugin fails to load with the
same words.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any

from packaging.version import Version

from castform import __version__
from castform.plugins.specs import Spec


@dataclass(frozen=True, kw_only=True, slots=True)
class Deprecation:
    """One thing that goes away."""

    name: str
    """A hook (`on_step_end`), an argument of one (`on_step_end.run`) or a field of a spec (`ToolSpec.tags`)."""
    since: str
    """The release that announces it, as in `0.3`."""
    removal: str
    """The first release without it, as in `0.4`: the next minor release at the earliest."""
    replacement: str
    """What to write in its place, after the word "use"."""

    def is_removed(self, version: str) -> bool:
        """Say whether a castform of this version has it no more."""
        return Version(version).release >= Version(self.removal).release

    def is_announced(self, version: str) -> bool:
        return Version(version).release >= Version(self.since).release

    def describe(self, version: str) -> str:
        """Return what an author has to know, without the plugin's name."""
        if self.is_removed(version):
            return f"{self.name} is gone since castform {self.removal}; use {self.replacement}"
        return f"{self.name} goes away in castform {self.removal}; use {self.replacement}"


DEPRECATIONS: tuple[Deprecation, ...] = ()
"""All that is announced, and what is gone for as long as plugins may still use it."""


class PluginDeprecationWarning(FutureWarning):
    """A plugin uses what goes away. Shown by default, once for each use: it is for whoever installed the plugin."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DeprecationTable:
    """The table as a castform of one version reads it."""

    entries: Sequence[Deprecation] = DEPRECATIONS
    version: str = __version__

    def find_removed(self, name: str) -> str | None:
        """Return what to say about a use of something that is gone; None when it is not in the table as gone."""
        found = next((e for e in self.entries if e.name == name and e.is_removed(self.version)), None)
        return None if found is None else found.describe(self.version)

    def find_removed_field(self, error: BaseException) -> str | None:
        """Return what to say when a spec was made with a field that is gone; None for any other error."""
        said = re.search(r"unexpected keyword argument '(\w+)'", str(error))
        if not isinstance(error, TypeError) or said is None:
            return None
        names = [e.name for e in self.entries if e.name.partition(".")[2] == said[1] and "Spec." in e.name]
        return next((told for name in names if (told := self.find_removed(name)) is not None), None)

    def warn_of(self, names: Iterable[str], *, plugin: str, function: Callable[..., object]) -> None:
        """Warn of each use that is announced and still works; `function` is the plugin's code that uses it."""
        for name in names:
            for entry in self.entries:
                if (
                    entry.name == name
                    and entry.is_announced(self.version)
                    and not entry.is_removed(self.version)
                ):
                    _warn(f"plugin {plugin!r}: {entry.describe(self.version)}", function)


def list_used_fields(spec: Spec) -> list[str]:
    """Return `SpecClass.field` for every field that a plugin gave another value than its default."""
    given = []
    for field in fields(spec):
        default = field.default_factory() if field.default_factory is not MISSING else field.default
        if default is MISSING or getattr(spec, field.name) != default:
            given.append(f"{type(spec).__name__}.{field.name}")
    return given


def _warn(text: str, function: Any) -> None:  # a function, or whatever a plugin marked as one
    code = getattr(function, "__code__", None)
    scope = getattr(function, "__globals__", {})
    warnings.warn_explicit(
        text,
        PluginDeprecationWarning,
        filename=code.co_filename if code is not None else "<plugin>",
        lineno=code.co_firstlineno if code is not None else 1,
        module=scope.get("__name__", "<plugin>"),
        registry=scope.setdefault("__warningregistry__", {}),  # so that loading it again says nothing new
    )
