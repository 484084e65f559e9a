"""The command line: a table from command to module, and one place where errors become exits.

Only the module of the command that was asked for is imported; the help of all commands
comes from the table.
"""

from __future__ import annotations

import importlib
import io
import os
import sys
from collections.abc import Sequence

from castform import __version__
from castform.errors import CastformError, UsageError

COMMANDS: dict[str, tuple[str, str]] = {
    "env": ("castform.cli.env", "list, show, write, check, certify and install environments"),
    "plugins": ("castform.cli.plugins", "list installed plugins, find broken ones"),
    "model": ("castform.cli.model", "fetch and list model weights"),
    "validate": ("castform.cli.validate", "say whether an environment can be trained on with a model"),
    "eval": ("castform.cli.eval", "score a model on held-out examples of an environment"),
    "train": ("castform.cli.train", "train a model in an environment, with a verdict at the end"),
    "sft": ("castform.cli.sft", "finetune a model on conversations"),
    "bundle": ("castform.cli.bundle", "carry an environment as one file, look into one, try one"),
    "harbor": ("castform.cli.harbor", "run Harbor task folders with any agent, in boxes"),
    "runs": ("castform.cli.runs", "look at runs, stop one"),
    "rescore": ("castform.cli.rescore", "score the rollouts of a run again, without a model"),
    "sandbox": ("castform.cli.sandbox", "list, check and clean up the places that untrusted programs run in"),
    "doctor": ("castform.cli.doctor", "check this installation"),
    "x": ("castform.cli.x", "run a command that a plugin brings"),
}
"""Name to (module, one line). A module has add_arguments(parser) and run(args) -> int."""

LISTINGS = {("env", "list"): False, ("env", "list", "--json"): True}
"""Words to whether JSON is wanted. They take no other argument and log nothing: argparse and
logging, which every other command needs, would be a fifth of their time."""

EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    verbose = False
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal that cannot show a character
    try:
        while words and words[0] in ("-v", "--verbose"):
            verbose = True
            del words[0]
        verbose = verbose or _asks_for_tracebacks(words)
        code = _run(words, verbose)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)  # noqa: T201
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        _silence_stdout()
        return EXIT_BROKEN_PIPE
    except CastformError as error:
        return _show_error(error, str(error.args[0]), error.hint, error.exit_code, verbose)
    except Exception as error:
        hint = _ask_for_hint(error)
        if hint is None:
            raise  # a bug: its traceback is the message
        return _show_error(error, f"{type(error).__name__}: {error}", hint, 1, verbose)


def _run(words: list[str], verbose: bool) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        print(_make_help())  # noqa: T201
        return 0
    if words[0] in ("--version", "-V"):
        print(f"castform {__version__}")  # noqa: T201
        return 0
    name = words[0]
    if name not in COMMANDS:
        raise _make_unknown(name)
    from castform.cli.output import keep_stdout_for_data

    if tuple(words) in LISTINGS and not verbose:
        from castform.cli.env_list import list_plugins

        with keep_stdout_for_data():
            return list_plugins(as_json=LISTINGS[tuple(words)])
    from castform.cli.parsing import Parser

    _show_logs(verbose)
    module = importlib.import_module(COMMANDS[name][0])
    parser = Parser(prog=f"castform {name}", description=_sentence(COMMANDS[name][1]))
    parser.add_argument("-v", "--verbose", action="store_true", help="show logs and tracebacks")
    parser.set_defaults(parser=parser)
    module.add_arguments(parser)
    try:
        args = parser.parse_args(words[1:])
    except SystemExit as stop:  # --help
        return int(stop.code or 0)
    if name == "x":  # a plugin's command: its stdout is its own
        return int(module.run(args) or 0)
    with keep_stdout_for_data():
        return int(module.run(args) or 0)


def _make_help() -> str:
    width = max(map(len, COMMANDS))
    rows = [f"  {name:<{width}}  {summary}" for name, (_, summary) in COMMANDS.items()]
    return "\n".join(
        [
            "usage: castform [-v] COMMAND …",
            "",
            "Environments for language-model post-training as plugins, and one trainer that runs them.",
            "",
            *rows,
            "",
            "  -v, --verbose  show logs and tracebacks     --version  show the version",
            "",
            "`castform COMMAND --help` explains a command.",
        ]
    )


def _make_unknown(name: str) -> UsageError:
    if name.startswith("-"):
        return UsageError(f"no option called {name}", hint="`castform --help` lists commands and options")
    from castform.cli.parsing import suggest_word

    close = suggest_word(name, COMMANDS)
    hint = f"did you mean {close!r}?" if close else "`castform --help` lists the commands"
    return UsageError(f"no command called {name!r}", hint=hint)


def _show_error(error: BaseException, message: str, hint: str | None, code: int, verbose: bool) -> int:
    from castform.safe_text import safe_text

    if verbose:
        import traceback

        traceback.print_exception(error)
    if hint is None:
        hint = _ask_for_hint(error)
    lines = f"error: {message}\n" + (f"\nhint: {hint}\n" if hint else "")
    print(safe_text(lines), end="", file=sys.stderr)  # noqa: T201
    return code


def _ask_for_hint(error: BaseException) -> str | None:
    from castform.plugins.hints import explain_error

    return explain_error(error)


def _asks_for_tracebacks(words: Sequence[str]) -> bool:
    before = words[: words.index("--")] if "--" in words else words
    return "-v" in before or "--verbose" in before


def _show_logs(verbose: bool) -> None:
    from castform.cli.logs import show_logs

    show_logs(verbose=verbose)


def _silence_stdout() -> None:
    """The reader of stdout has gone; keep the interpreter from complaining at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _sentence(summary: str) -> str:
    return f"{summary[0].upper()}{summary[1:]}."


if __name__ == "__main__":
    sys.exit(main())
