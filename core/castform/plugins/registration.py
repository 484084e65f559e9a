"""Put a plugin's hooks into a manager of its own, after a look at what pluggy would not say, or not in time."""

from __future__ import annotations

import inspect
from typing import Any

import pluggy

from castform.errors import CastformError
from castform.plugins import hookspecs
from castform.plugins.catalog import GROUP, CatalogEntry
from castform.plugins.deprecations import DeprecationTable
from castform.plugins.failure import ContainedError, PluginFailure, call_contained
from castform.plugins.names import normalize_name, quote_names, suggest_names


def register_hooks(
    entry: CatalogEntry, name: str, module: object, *, table: DeprecationTable | None = None
) -> pluggy.PluginManager:
    """Return a manager that holds one plugin. Raises PluginFailure when a hook of it could not be called.

    Warns of hooks and arguments that `table` announces the end of; default: deprecations.py as it is.
    """
    table = table or DeprecationTable()
    manager = pluggy.PluginManager(GROUP)
    manager.add_hookspecs(hookspecs)
    try:
        faults = _find_hook_faults(manager, module, table)
        if faults:
            raise CastformError("; ".join(faults))
        call_contained(lambda: manager.register(module, name))
        manager.check_pending()
    except (CastformError, pluggy.PluginValidationError) as error:
        raise PluginFailure(name, entry.distribution, "registration", error) from error
    except ContainedError as contained:
        raise PluginFailure(name, entry.distribution, "registration", contained.cause) from contained.cause
    for caller in manager.get_hookcallers(module) or ():
        for hook in caller.get_hookimpls():
            uses = [caller.name, *(f"{caller.name}.{argument}" for argument in hook.argnames)]
            table.warn_of(uses, plugin=name, function=hook.function)
    return manager


def _find_hook_faults(manager: pluggy.PluginManager, plugin: object, table: DeprecationTable) -> list[str]:
    """Return what pluggy would not say, or not in time."""
    known = {name for name in vars(hookspecs) if hasattr(getattr(hookspecs, name), f"{GROUP}_spec")}
    faults: list[str] = []
    marked = 0
    for name in sorted(n for n in dir(plugin) if not n.startswith("__")):
        function = inspect.getattr_static(plugin, name)
        function = getattr(function, "__func__", function)
        if not inspect.isroutine(function):
            continue
        options = manager.parse_hookimpl_opts(plugin, name)
        if options is None:
            if name in known:
                faults.append(f"{name} is a hook's name, but is not marked with @hookimpl")
            continue
        marked += 1
        name = options.get("specname") or name
        if name not in known and options.get("optionalhook"):
            continue  # of a later castform
        gone = table.find_removed(name)
        if gone is not None:
            faults.append(gone)
            continue
        if name not in known:
            close = suggest_names(name, {normalize_name(k): k for k in known})
            meant = next((k for k in known if close and normalize_name(k) == close[0]), None)
            faults.append(f"unknown hook {name!r}" + (f", did you mean {meant!r}?" if meant else ""))
        faults += _find_signature_faults(name, function, table)
    if not marked and not faults:
        faults.append("it implements no hook; mark its functions with @castform.plugins.hookimpl")
    return faults


def _find_signature_faults(
    name: str,
    function: Any,  # of any signature
    table: DeprecationTable,
) -> list[str]:
    faults = []
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        faults.append(f"{name} is async; hooks are plain functions")
    spec = getattr(hookspecs, name, None)
    allowed = list(inspect.signature(spec).parameters) if callable(spec) else []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name == "self":
            continue
        gone = table.find_removed(f"{name}.{parameter.name}")
        if gone is not None:
            faults.append(gone)
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            faults.append(f"{name}: {parameter} is never filled; name the arguments")
        elif parameter.default is not parameter.empty:
            faults.append(f"{name}: argument {parameter.name!r} has a default, so it would never be filled")
        elif callable(spec) and parameter.name not in allowed:
            has = f"it has {quote_names(allowed)}" if allowed else "it has none"
            faults.append(f"{name}: the hook has no argument {parameter.name!r}; {has}")
    return faults
