"""`castform x <plugin> <command> …`: commands that plugins bring."""

from __future__ import annotations

import argparse

from castform.cli.output import print_note, print_table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the plugin; the rest belongs to its command."""
    parser.add_argument("plugin", help="the plugin whose command it is")
    parser.add_argument(
        "words", nargs=argparse.REMAINDER, metavar="command …", help="its command and arguments"
    )


def run(args: argparse.Namespace) -> int:
    """Run the plugin's command and return its exit code; without one, list its commands."""
    from castform.errors import UsageError
    from castform.plugins.check import list_commands
    from castform.plugins.failure import ContainedError, PluginFailure, call_contained
    from castform.plugins.loader import load_registry
    from castform.plugins.names import quote_names, suggest_names
    from castform.plugins.references import import_reference

    plugin = load_registry().load(args.plugin)
    commands = list_commands(plugin).commands
    if not args.words or args.words[0] in ("-h", "--help"):
        if commands:
            print_table(["COMMAND", "SUMMARY"], [[c.name, c.summary] for c in commands.values()])
        else:
            print_note(f"plugin {plugin.name!r} has no commands")
        return 0
    name, *rest = args.words
    if name not in commands:
        close = suggest_names(name, commands)
        raise UsageError(
            f"plugin {plugin.name!r} has no command {name!r}",
            hint=f"did you mean {close[0]!r}?" if close else f"it has {quote_names(commands) or 'none'}",
        )
    command = commands[name]
    parser = type(args.parser)(prog=f"castform x {plugin.name} {name}", description=command.summary)
    if command.add_arguments is not None:
        command.add_arguments(parser)
    try:
        function = call_contained(lambda: import_reference(command.run))
    except ContainedError as contained:
        raise PluginFailure(
            plugin.name, plugin.entry.distribution, "factory", contained.cause
        ) from contained.cause
    return int(function(parser.parse_args(rest)) or 0)
