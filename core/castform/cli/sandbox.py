"""`castform sandbox`: which providers there are, whether one keeps the rules, what dead owners left, attacks."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from castform.cli import sandbox_attack
from castform.cli.output import print_json, print_note, print_table, print_text

if TYPE_CHECKING:
    from castform.sandbox.contract import Capabilities
    from castform.testing.sandboxes.rule import RuleResult


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the actions."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")

    listing = actions.add_parser("list", help="list providers and what each holds to on this machine")
    listing.add_argument("--json", action="store_true", help="JSON on stdout")
    listing.set_defaults(handler=_list)

    check = actions.add_parser("check", help="try every rule of sandboxes on one provider")
    check.add_argument("name", help="the provider: process, docker, bubblewrap, or a plugin's")
    check.add_argument("--image", help="an image with a POSIX shell (default: the provider's own)")
    check.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an option of the provider, as TOML; may be given again",
    )
    check.add_argument("--only", action="append", metavar="RULE", help="check this rule; may be given again")
    check.add_argument("--json", action="store_true", help="JSON on stdout")
    check.set_defaults(handler=_check)

    reap = actions.add_parser(
        "reap", help="remove the sandboxes and folders of processes that are dead, and no others"
    )
    reap.add_argument("name", nargs="?", help="the provider (default: every one that works here)")
    reap.add_argument("--json", action="store_true", help="JSON on stdout")
    reap.set_defaults(handler=_reap)

    sandbox_attack.add_arguments(
        actions.add_parser(
            "attack", help="play a hostile agent on Harbor tasks: what it earns, where it gets out"
        )
    )


def run(args: argparse.Namespace) -> int:
    """Do one of them; a check exits 1 when a rule is broken."""
    return int(args.handler(args))


def _list(args: argparse.Namespace) -> int:
    from castform.cli.sandbox_calls import probe_providers

    probed = probe_providers()
    if args.json:
        print_json(
            [
                {
                    "provider": p.listed.name,
                    "summary": p.listed.summary,
                    "distribution": p.listed.distribution,
                    "usable": p.capabilities is not None,
                    "problem": p.problem or None,
                    "capabilities": None if p.capabilities is None else _capabilities_as_dict(p.capabilities),
                }
                for p in probed
            ]
        )
        return 0
    print_table(
        ["PROVIDER", "ISOLATES", "CPUS", "MEMORY", "PIDS", "DISK", "NETWORKS", "USERS", "IMAGES"],
        [[p.listed.name, *_describe_row(p.capabilities)] for p in probed],
    )
    for p in probed:
        if p.capabilities is None:
            print_note(f"{p.listed.name}: {p.problem}")
        else:
            for note in p.capabilities.notes:
                print_note(f"{p.listed.name}: {note}")
    return 0


def _check(args: argparse.Namespace) -> int:
    from castform.cli.sandbox_calls import parse_options
    from castform.testing.sandboxes import check_provider

    report = check_provider(
        args.name,
        only=args.only,
        image=args.image,
        options=parse_options(args.option),
        show=None if args.json else _show_result,
    )
    if args.json:
        print_json(
            {
                "provider": report.provider,
                "capabilities": _capabilities_as_dict(report.capabilities),
                "rules": [result.as_dict() for result in report.results],
                "held": report.count("held"),
                "broken": report.count("broken"),
                "not_claimed": report.count("not_claimed"),
                "not_checked": report.count("not_checked"),
            }
        )
    else:
        print_note(report.describe().partition("\n")[0])
    return 1 if report.broken else 0


def _reap(args: argparse.Namespace) -> int:
    from castform.cli.sandbox_calls import SCRATCH, reap_providers

    removed = reap_providers(args.name)
    if args.json:
        print_json([{"provider": provider, "removed": list(names)} for provider, names in removed])
        return 0
    for provider, names in removed:
        for name in names:
            print_text(f"{provider}  {name}")
    folders = sum(len(names) for provider, names in removed if provider == SCRATCH)
    count = sum(len(names) for _, names in removed) - folders
    more = f" and {folders} folder{'s' * (folders != 1)}" if folders else ""
    print_note(f"removed {count} sandbox{'es' * (count != 1)}{more} of dead owners")
    return 0


def _show_result(result: RuleResult) -> None:
    print_text(f"{result.state.replace('_', ' '):<12} {result.rule:<22} {result.reason or result.promise}")
    if result.state == "broken":
        print_text(f"{'':<12} {'':<22} the rule: {result.promise}")


def _describe_row(capabilities: Capabilities | None) -> list[str]:
    if capabilities is None:
        return ["not usable", *[""] * 7]
    return [
        _yes(capabilities.isolated),
        capabilities.cpus,
        capabilities.memory,
        capabilities.pids,
        capabilities.disk,
        ", ".join(sorted(capabilities.networks)),
        _yes(capabilities.users),
        _yes(capabilities.images),
    ]


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _capabilities_as_dict(capabilities: Capabilities) -> dict[str, Any]:
    return {
        "isolated": capabilities.isolated,
        "cpus": capabilities.cpus,
        "memory": capabilities.memory,
        "pids": capabilities.pids,
        "disk": capabilities.disk,
        "networks": sorted(capabilities.networks),
        "users": capabilities.users,
        "images": capabilities.images,
        "notes": list(capabilities.notes),
    }
