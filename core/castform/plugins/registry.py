"""Find a plugin by id among entry points and load it, alone, when it is asked for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Generic, Protocol, TypeVar

from castform.errors import UsageError
from castform.plugins.catalog import CORE
from castform.plugins.failure import ContainedError, PluginFailure, call_contained
from castform.plugins.ids import PluginId, parse_id
from castform.plugins.known import explain_absence
from castform.plugins.names import is_name, normalize_name, quote_names, suggest_names

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")


class EntryPointLike(Protocol[T_co]):
    """What a registry needs to know of an entry point.

    `dist` is the distribution's name or an object with `.name` (and `.version`).
    """

    @property
    def name(self) -> str: ...
    @property
    def dist(self) -> Any: ...  # str here, importlib.metadata.Distribution in the standard library
    def load(self) -> T_co: ...


class UnknownPluginError(UsageError):
    """No installed plugin has this name. Its text carries the hint too: it is all a log line shows."""

    def __str__(self) -> str:
        return f"{self.args[0]} ({self.hint})"


class Registry(Generic[T]):
    """Plugins by name. Nothing is loaded before an id names it, and one plugin's fault stays its own."""

    def __init__(
        self, entry_points: Iterable[EntryPointLike[T]], *, allowed: frozenset[str] | None = None
    ) -> None:
        self._candidates: dict[str, list[EntryPointLike[T]]] = {}
        self._allowed = allowed
        self._loaded: dict[str, T] = {}
        self._failures: dict[str, PluginFailure] = {}
        for entry in entry_points:
            same = self._candidates.setdefault(normalize_name(entry.name), [])
            if not any(_is_same(entry, other) for other in same):
                same.append(entry)

    def names(self) -> list[str]:
        """Return the normal forms of all names, allowed ones only."""
        return sorted(n for n in self._candidates if self._allowed is None or n in self._allowed)

    def find(self, id: str) -> PluginId:
        """Take an id apart by what is installed. Raises UsageError or UnknownPluginError."""
        found = parse_id(id, self._candidates)
        if found.plugin not in self._candidates:
            raise self._unknown(found)
        if self._allowed is not None and found.plugin not in self._allowed:
            raise UsageError(
                f"plugin {found.plugin!r} is installed, but CASTFORM_PLUGINS does not allow it",
                hint=f"CASTFORM_PLUGINS allows {', '.join(sorted(self._allowed)) or 'no plugin'}",
            )
        return found

    def load(self, id: str) -> T:
        """Load the plugin that an id names.

        Raises UnknownPluginError when none is installed, UsageError when the id pins a
        version that is not, PluginFailure when the plugin is broken.
        """
        found = self.find(id)
        if found.version is not None:
            self._check_version(found, found.version)
        return self._load_name(found.plugin)

    def is_imported(self, name: str) -> bool:
        """Say whether the module behind a name is imported in this process already."""
        import sys

        values = [str(getattr(c, "value", "")) for c in self._candidates.get(normalize_name(name), [])]
        return any(value.partition(":")[0] in sys.modules for value in values)

    @property
    def errors(self) -> dict[str, PluginFailure]:
        """Try every plugin and return those that fail, by name."""
        for name in self.names():
            self.check(name)
        return {name: self._failures[name] for name in self.names() if name in self._failures}

    def check(self, name: str) -> PluginFailure | None:
        """Try one plugin; return its failure instead of raising it."""
        try:
            self._load_name(normalize_name(name))
        except PluginFailure as failure:
            return failure
        return None

    def _load_name(self, name: str) -> T:
        if name in self._failures:
            raise self._failures[name]
        if name not in self._loaded:
            try:
                self._loaded[name] = self._load_only(name, self._candidates[name])
            except PluginFailure as failure:
                self._failures[name] = failure
                raise
        return self._loaded[name]

    def _load_only(self, name: str, candidates: list[EntryPointLike[T]]) -> T:
        entry = candidates[0]
        if len(candidates) > 1:
            owners = sorted({distribution_name(c) for c in candidates})
            raise PluginFailure(
                name,
                " and ".join(owners),
                "name clash",
                f"{len(candidates)} entry points claim this name, so none is used",
                hint=f"pip uninstall {owners[-1]}" if len(owners) > 1 else f"ask the author of {owners[0]}",
            )
        if not is_name(entry.name):
            raise PluginFailure(
                name, distribution_name(entry), "metadata", f"{entry.name!r} is no usable plugin name"
            )
        try:
            return call_contained(entry.load)
        except ContainedError as contained:
            if isinstance(contained.cause, PluginFailure):
                raise contained.cause from contained.cause.__cause__
            raise PluginFailure(
                name, distribution_name(entry), "import", contained.cause
            ) from contained.cause

    def _check_version(self, found: PluginId, wanted: str) -> None:
        entry = self._candidates[found.plugin][0]
        installed = _version(entry)
        if installed is not None and not is_version(installed, wanted):
            name = distribution_name(entry)
            raise UsageError(
                f"{found.text!r} asks for version {wanted}, but {name} {installed or '(no version)'} is installed",
                hint=f"pip install '{name}=={wanted}', or leave @{wanted} out",
            )

    def _unknown(self, found: PluginId) -> UnknownPluginError:
        names = [name for name in self.names() if name != CORE]
        close = suggest_names(found.plugin, names) or (
            suggest_names(found.member, names) if found.member else []
        )
        if close:
            hint = f"did you mean {' or '.join(repr(c) for c in close)}? `castform env list` shows what is installed"
        else:
            have = f"installed: {quote_names(names)}" if names else "no plugin is installed"
            known = explain_absence(found.plugin, names)
            hint = known or f"{have}; plugins come with `pip install castform-env-<name>`"
        return UnknownPluginError(f"no plugin called {found.plugin!r}", hint=hint)


def distribution_name(entry: EntryPointLike[Any]) -> str:
    """Return the name of the distribution an entry point comes from."""
    dist = entry.dist
    return dist if isinstance(dist, str) else str(getattr(dist, "name", None) or "an unknown distribution")


def is_version(installed: str, wanted: str) -> bool:
    """Say whether an installed version is the wanted one (PEP 440: 1.2 is 1.2.0, and 1.2+local is 1.2)."""
    from packaging.specifiers import InvalidSpecifier, Specifier

    try:
        return Specifier(f"=={wanted}").contains(installed, prereleases=True)
    except (InvalidSpecifier, ValueError):
        return installed == wanted


def _version(entry: EntryPointLike[Any]) -> str | None:
    """Return the installed version; None where the entry point does not know its distribution's."""
    version = getattr(entry, "version", None) or getattr(entry.dist, "version", None)
    if version is None and isinstance(entry.dist, str) and not hasattr(entry, "version"):
        return None
    return str(version or "")


def _is_same(one: EntryPointLike[Any], other: EntryPointLike[Any]) -> bool:
    """The same distribution found twice on the path declares its plugin twice."""
    if normalize_name(distribution_name(one)) != normalize_name(distribution_name(other)):
        return False
    return getattr(one, "value", None) == getattr(other, "value", None)
