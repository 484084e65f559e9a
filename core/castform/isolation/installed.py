"""From a plugin's name to the environment that it is installed in alone."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from castform.isolation.runtime_links import worker_environ
from castform.isolation.store import IsolatedRecord, is_usable, list_records
from castform.plugins.catalog import CatalogEntry
from castform.plugins.failure import PluginFailure
from castform.plugins.names import normalize_name
from castform.plugins.plugin import Plugin
from castform.plugins.registration import register_hooks
from castform.plugins.specs import EnvironmentSpec
from castform.workers.interpreter import Interpreter


def load_isolated(entry: CatalogEntry) -> Plugin:
    """Return a plugin that is installed isolated, without importing a line of it.

    Its environments are those that it registered when it was installed. Raises PluginFailure when
    its environment is no longer whole.
    """
    name = normalize_name(entry.name)
    record = next(
        (r for r in list_records() if normalize_name(r.distribution) == normalize_name(entry.distribution)),
        None,
    )
    if record is None or name not in record.plugins:
        raise PluginFailure(name, entry.distribution, "metadata", "it is not installed isolated any more")
    return Plugin(
        name=name,
        entry=entry,
        manager=register_hooks(entry, name, _make_hooks(record, name)),
        interpreter=make_interpreter(record),
    )


def make_interpreter(record: IsolatedRecord) -> Interpreter:
    """Return the interpreter of an isolated environment. Raises PluginFailure when it is not whole."""
    if not is_usable(record):
        raise PluginFailure(
            ", ".join(record.plugins),
            f"{record.distribution} {record.version}",
            "requirements",
            f"its virtual environment is no longer whole: {record.folder}",
            hint=f"castform env install '{record.distribution}=={record.version}' --isolated",
        )
    return Interpreter(python=Path(record.python_path()), env=worker_environ(Path(record.folder)))


def _make_hooks(record: IsolatedRecord, plugin_name: str) -> Any:  # anything with hook methods
    """Return hooks that register the environments that the plugin registers in its own environment."""
    from castform.plugins.builtin import hookimpl

    specs = [
        EnvironmentSpec.from_dict(spec) for spec in record.plugins[plugin_name]["registers"]["environment"]
    ]

    @hookimpl
    def register_environments() -> list[EnvironmentSpec]:
        return specs

    return SimpleNamespace(register_environments=register_environments)
