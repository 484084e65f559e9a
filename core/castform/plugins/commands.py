"""Commands that plugins add: `castform x <plugin> <command> …`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, field

from castform.plugins.names import is_name
from castform.plugins.specs import SpecError

AddArguments = Callable[[argparse.ArgumentParser], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class PluginCommand:
    """One command of a plugin."""

    name: str
    summary: str
    run: str
    """`module:function`, called with the parsed arguments; returns the exit code."""
    add_arguments: AddArguments | None = None


@dataclass(slots=True)
class CommandGroup:
    """Where `register_commands` puts a plugin's commands."""

    commands: dict[str, PluginCommand] = field(default_factory=dict)

    def add(self, name: str, summary: str, run: str, add_arguments: AddArguments | None = None) -> None:
        """Add a command. Raises SpecError for a name that is taken or unusable."""
        if not is_name(name):
            raise SpecError(f"{name!r} is no usable command name")
        if name in self.commands:
            raise SpecError(f"the command {name!r} is added twice")
        if not isinstance(run, str) or ":" not in run:
            raise SpecError(f"command {name!r}: run is {run!r}, not a 'module:function' string")
        self.commands[name] = PluginCommand(name=name, summary=summary, run=run, add_arguments=add_arguments)
