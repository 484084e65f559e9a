"""`castform env install` and `castform env remove`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from castform.cli.output import print_fields, print_json, print_note
from castform.errors import UsageError
from castform.home import expand_home

if TYPE_CHECKING:
    from castform.isolation.installers import Sources


def add_install_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `env install`."""
    parser.add_argument("requirement", help="a requirement (castform-env-x==1.2), a wheel, or a folder")
    parser.add_argument(
        "--isolated",
        action="store_true",
        help="into a virtual environment of its own; its environments run in worker processes there",
    )
    parser.add_argument(
        "--upgrade",
        action="store_true",
        help="resolve again, where the same was asked for before (with --isolated)",
    )
    parser.add_argument(
        "--with",
        dest="also",
        action="append",
        default=[],
        metavar="REQUIREMENT",
        help="something else that goes into the environment (with --isolated)",
    )
    parser.add_argument(
        "--save-wheels",
        type=Path,
        metavar="DIR",
        help="keep every wheel in this folder, for --offline --wheels elsewhere (with --isolated)",
    )
    parser.add_argument("--wheels", type=Path, metavar="DIR", help="use the wheels in this folder too")
    parser.add_argument("--offline", action="store_true", help="use the folder of --wheels and no index")
    parser.add_argument(
        "--resolver",
        choices=("auto", "uv", "pip"),
        default="auto",
        help="auto: uv where it is installed, else pip (with --isolated)",
    )
    parser.add_argument("--json", action="store_true", help="JSON on stdout")


def add_remove_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `env remove`."""
    parser.add_argument("name", help="a plugin or distribution that is installed isolated")
    parser.add_argument("--json", action="store_true", help="JSON on stdout")


def install(args: argparse.Namespace) -> int:
    """Install, into an environment of its own or into this one."""
    from castform.isolation.installers import Sources

    sources = Sources(
        wheels=None if args.wheels is None else expand_home(args.wheels).absolute(), offline=args.offline
    )
    if not args.isolated:
        alone = {"--with": args.also, "--save-wheels": args.save_wheels, "--upgrade": args.upgrade}
        for option, given in alone.items():
            if given:
                raise UsageError(f"{option} is for --isolated", hint="add --isolated, or leave it out")
        return _install_here(args.requirement, sources, as_json=args.json)
    from castform.isolation.install import install_isolated

    done = install_isolated(
        args.requirement,
        also=args.also,
        sources=sources,
        resolver=args.resolver,
        save_wheels=None if args.save_wheels is None else expand_home(args.save_wheels).absolute(),
        upgrade=args.upgrade,
        on_stage=print_note,
    )
    record = done.record
    if done.conflict:
        print_note(
            f"castform's own dependencies are left out, so only what a worker needs is there ({done.conflict})"
        )
    if args.json:
        print_json(
            {
                **{
                    name: value
                    for name, value in record._asdict().items()
                    if name not in ("plugins", "request")
                },
                "plugins": sorted(record.plugins),
                "built": done.was_built,
            }
        )
    else:
        print_fields(
            {
                "installed": f"{record.distribution} {record.version}{'' if done.was_built else ' (was there)'}",
                "plugins": ", ".join(sorted(record.plugins)),
                "in": record.folder,
                "with": f"Python {record.python}, {record.packages} distributions, locked by {record.resolver}",
                "runtime": _RUNTIMES[record.runtime],
            }
        )
    return 0


_RUNTIMES = {
    "full": "full (all of benchmax works)",
    "minimal": "minimal (what a worker needs; openai, pydantic and the like come from the plugin alone)",
}


def remove(args: argparse.Namespace) -> int:
    """Remove every isolated environment of a plugin."""
    from castform.isolation.install import remove_isolated
    from castform.isolation.store import list_records
    from castform.plugins.names import normalize_name, quote_names, suggest_names

    wanted = normalize_name(args.name)
    records = list_records()
    found = [r for r in records if wanted == normalize_name(r.distribution) or wanted in r.plugins]
    if not found:
        known = sorted({name for r in records for name in (*r.plugins, normalize_name(r.distribution))})
        close = suggest_names(args.name, known)
        raise UsageError(
            f"no plugin called {args.name!r} is installed isolated",
            hint=f"did you mean {close[0]!r}?"
            if close
            else f"installed isolated: {quote_names(known) or 'none'}; `pip uninstall` removes one from this environment",
        )
    removed = []
    for record in found:
        folders = remove_isolated(record.distribution)
        removed.append(
            {"distribution": record.distribution, "version": record.version, "folders": list(folders)}
        )
        print_note(f"removed {record.distribution} {record.version}: {', '.join(folders) or 'its record'}")
    if args.json:
        print_json(removed)
    return 0


def _install_here(requirement: str, sources: Sources, *, as_json: bool) -> int:
    from castform.isolation.into_this import Change, install_into_this

    def show(changes: Sequence[Change]) -> None:
        print_note("it would install " + (", ".join(map(str, changes)) or "nothing: it is there"))

    changes = install_into_this(requirement, sources=sources, on_plan=show, on_stage=print_note)
    if as_json:
        print_json([{"name": c.name, "before": c.before, "after": c.after} for c in changes])
    else:
        print_fields({"installed": ", ".join(map(str, changes)) or "nothing: it is there"})
    return 0
