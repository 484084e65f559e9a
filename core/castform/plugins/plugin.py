"""A loaded plugin: its hooks, called when their answers are needed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar, cast

import pluggy

from castform.errors import UsageError
from castform.plugins import hookspecs
from castform.plugins.catalog import CatalogEntry
from castform.plugins.deprecations import DeprecationTable, list_used_fields
from castform.plugins.failure import ContainedError, PluginFailure, call_contained, describe_cause
from castform.plugins.names import normalize_name, quote_names, suggest_names
from castform.plugins.specs import (
    DatasetSpec,
    EngineSpec,
    EnvironmentSpec,
    HarnessSpec,
    RewardSpec,
    RubricSpec,
    SandboxSpec,
    Spec,
    SpecError,
    ToolSpec,
)

if TYPE_CHECKING:
    from castform.workers.interpreter import Interpreter

S = TypeVar("S", bound=Spec)

REGISTRATION_HOOKS: dict[type[Spec], str] = {
    EnvironmentSpec: "register_environments",
    DatasetSpec: "register_datasets",
    ToolSpec: "register_tools",
    RewardSpec: "register_rewards",
    RubricSpec: "register_rubrics",
    SandboxSpec: "register_sandboxes",
    HarnessSpec: "register_harnesses",
    EngineSpec: "register_engines",
}


@dataclass(frozen=True, kw_only=True)
class Plugin:
    """One loaded plugin: its hooks, called when their answers are needed."""

    name: str
    """Normal form."""
    entry: CatalogEntry
    manager: pluggy.PluginManager = field(repr=False)
    interpreter: Interpreter | None = None
    """Set for a plugin that is installed isolated: its environments run there, and it has nothing else."""
    table: DeprecationTable = field(default_factory=DeprecationTable, repr=False)
    """What a plugin is warned of, or refused for."""

    def specs(self, kind: type[S]) -> dict[str, S]:
        """Return what the plugin registers of one kind, by name in normal form.

        Raises PluginFailure when the hook raises, returns something else, or uses a name twice.
        """
        hook = REGISTRATION_HOOKS[kind]
        found: dict[str, S] = {}
        for result in self.call(hook):
            for spec in self._check_result(hook, kind, result):
                key = normalize_name(spec.name)
                if key in found:
                    raise self.fail(SpecError(f"{hook} registers {spec.name!r} twice"))
                found[key] = spec
        self._check_fields(hook, found.values())
        return found

    def find_spec(self, kind: type[S], member: str | None) -> S:
        """Return one spec by its name; without one, the only spec or the one called `default`.

        Raises UsageError when there is no such one.
        """
        specs = self.specs(kind)
        what = kind.kind
        if self.interpreter is not None and kind is not EnvironmentSpec:
            raise UsageError(
                f"plugin {self.name!r} is installed isolated, so its {what}s cannot be used in other environments",
                hint=f"install it here instead: castform env install {self.entry.distribution}",
            )
        if not specs:
            raise UsageError(
                f"plugin {self.name!r} has no {what}",
                hint=f"`castform plugins {self.name}` shows what it has",
            )
        if member is None:
            if len(specs) == 1:
                return next(iter(specs.values()))
            if "default" in specs:
                return specs["default"]
            ids = [f"{self.name}/{name}" for name in specs]
            raise UsageError(
                f"plugin {self.name!r} has {len(specs)} {what}s: {quote_names(ids)}",
                hint=f"name one, as in {ids[0]!r}",
            )
        if member not in specs:
            close = suggest_names(member, specs)
            ids = [f"{self.name}/{name}" for name in (close or specs)]
            raise UsageError(
                f"plugin {self.name!r} has no {what} called {member!r}",
                hint=f"did you mean {ids[0]!r}?" if close else f"it has {quote_names(ids)}",
            )
        return specs[member]

    def call(self, hook: str, **arguments: object) -> list[Any]:
        """Call one hook, contained; return its answers (at most one: a plugin implements a hook once)."""
        caller = getattr(self.manager.hook, hook)
        try:
            answer = call_contained(lambda: caller(**arguments))
        except ContainedError as contained:
            raise self.fail(self._describe(hook, contained.cause)) from contained.cause
        if isinstance(answer, list):
            return answer
        return [] if answer is None else [answer]  # a firstresult hook

    def implements(self, hook: str) -> bool:
        """Say whether the plugin has this hook."""
        return bool(getattr(self.manager.hook, hook).get_hookimpls())

    def list_hooks(self) -> list[str]:
        """Return the hooks that the plugin has, in the order of hookspecs.py."""
        return [name for name in vars(hookspecs) if name in vars(self.manager.hook) and self.implements(name)]

    def fail(self, cause: BaseException | str) -> PluginFailure:
        """Make the failure of a registration."""
        return PluginFailure(self.name, self.entry.distribution, "registration", cause)

    def _check_result(self, hook: str, kind: type[S], result: object) -> Sequence[S]:
        if isinstance(result, Spec):
            result = [result]
        if isinstance(result, str | bytes) or not isinstance(result, Iterable):
            raise self.fail(SpecError(f"{hook} returned {result!r}, not {kind.__name__} objects"))
        try:
            items = call_contained(lambda: list(result))  # a generator runs here
        except ContainedError as contained:
            raise self.fail(self._describe(hook, contained.cause)) from contained.cause
        for item in items:
            if not isinstance(item, kind):
                raise self.fail(SpecError(f"{hook} returned {item!r}, not {kind.__name__} objects"))
        return cast("list[S]", items)  # every item was just checked

    def _check_fields(self, hook: str, specs: Iterable[Spec]) -> None:
        """Warn of fields of specs that go away, once each; raise PluginFailure for those that are gone."""
        used = list(dict.fromkeys(name for spec in specs for name in list_used_fields(spec)))
        for name in used:
            gone = self.table.find_removed(name)
            if gone is not None:
                raise self.fail(f"{hook}: {gone}")
        for implementation in getattr(self.manager.hook, hook).get_hookimpls():
            self.table.warn_of(used, plugin=self.name, function=implementation.function)

    def _describe(self, hook: str, cause: BaseException) -> str:
        return f"{hook}: {self.table.find_removed_field(cause) or describe_cause(cause)}"
