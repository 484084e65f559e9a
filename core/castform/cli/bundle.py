"""`castform bundle`: carry an environment as one file, look into one, try one."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from castform.cli.model_choice import add_environment_arguments
from castform.cli.output import print_fields, print_json, print_note, print_table, print_text

if TYPE_CHECKING:
    from benchmax.bundle import Bundle
    from castform.bundles import TrialReport

EXIT_NOT_USABLE = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare `make`, `show` and `check`."""
    commands = parser.add_subparsers(
        dest="action", required=True, metavar="make|show|check", prog=parser.prog
    )
    _add_make(commands.add_parser("make", help="bundle the environment of one Python file"))
    show = commands.add_parser("show", help="what a bundle says of itself; nothing of it is run")
    check = commands.add_parser(
        "check", help="load a bundle in a process and a Python environment of its own"
    )
    for command in (show, check):
        command.add_argument("bundle", type=Path, help="a *.castform-bundle file")
        command.add_argument("--digest", metavar="SHA256", help="refuse any bundle but this one")
        command.add_argument(
            "--key", type=Path, metavar="FILE", help="refuse a bundle that is not signed with this key"
        )
    check.add_argument(
        "--examples", type=_positive, default=3, metavar="N", help="examples of each split to make (3)"
    )
    check.add_argument("--rollout", action="store_true", help="play one scripted rollout too")
    check.add_argument(
        "--timeout", type=_seconds, default=120.0, metavar="SECONDS", help="most time the bundle gets (120)"
    )
    check.add_argument(
        "--env",
        action="append",
        default=[],
        metavar="NAME",
        help="pass this environment variable on; by default none with a secret is",
    )
    for command in (show, check):
        command.add_argument("--json", action="store_true", help="one JSON document on stdout")


def _add_make(make: argparse.ArgumentParser) -> None:
    make.add_argument("source", metavar="FILE[:CLASS]", help="Python file with an environment class in it")
    make.add_argument("-o", "--out", type=Path, required=True, metavar="OUT", help="file to write")
    add_environment_arguments(make, what="an argument of the constructor; may be repeated")
    make.add_argument(
        "--dep", action="append", default=[], metavar="REQUIREMENT", help="a package that it needs, PEP 508"
    )
    make.add_argument(
        "--data",
        action="append",
        default=[],
        type=Path,
        metavar="PATH",
        help="a file or folder of the project to take along",
    )
    make.add_argument("--key", type=Path, metavar="FILE", help="sign with this key (16 bytes or more)")
    make.add_argument("--allow-secrets", action="store_true", help="only warn of secrets")
    make.add_argument("--json", action="store_true", help="one JSON document on stdout")


def run(args: argparse.Namespace) -> int:
    """Run the action that was asked for."""
    return {"make": _make, "show": _show, "check": _check}[args.action](args)


def _make(args: argparse.Namespace) -> int:
    from castform.bundles.make import make_bundle
    from castform.cli.env_show import parse_arguments

    made = make_bundle(
        args.source,
        args.out,
        args=parse_arguments(args.arg),
        dependencies=args.dep,
        data=args.data,
        key_file=args.key,
        allow_secrets=args.allow_secrets,
    )
    for note in made.notes:
        print_note(f"note: {note}")
    if args.json:
        print_json({"path": str(made.path), **_describe(made.bundle), "notes": list(made.notes)})
    else:
        print_fields({"bundle": made.path, **_fields(made.bundle)})
    return 0


def _show(args: argparse.Namespace) -> int:
    from castform.bundles.stored import open_bundle

    bundle = open_bundle(args.bundle, digest=args.digest, key_file=args.key, any_runtime=True)
    if args.json:
        print_json({**_describe(bundle, args.key), "source": bundle.metadata.env_class_source})
        return 0
    print_fields(_fields(bundle, args.key))
    if bundle.data.files:
        print_text()
        print_table(["DATA FILE", "BYTES"], [[f.path, len(f.content)] for f in bundle.data.files])
    if bundle.metadata.env_class_source:
        print_text()
        print_text(bundle.metadata.env_class_source.rstrip("\n"))
    return 0


def _check(args: argparse.Namespace) -> int:
    from castform.bundles import TrialOptions, open_bundle, try_bundle
    from castform.home import castform_home

    bundle = open_bundle(args.bundle, digest=args.digest, key_file=args.key)
    report = try_bundle(
        bundle,
        home=castform_home(),
        options=TrialOptions(
            examples=args.examples,
            rollout=args.rollout,
            timeout_seconds=args.timeout,
            environment_variables=args.env,
        ),
        on_stage=lambda stage: print_note(f"checking: {stage}"),
    )
    if args.json:
        print_json({**_describe(bundle, args.key), **report.as_dict()})
    else:
        print_fields(_fields(bundle, args.key))
        _print_report(report)
    return EXIT_NOT_USABLE if report.faults else 0


def _print_report(report: TrialReport) -> None:
    print_text()
    for split in report.splits:
        rows = [[example["id"], example["payload"][:100]] for example in split.examples]
        if rows:
            print_table([f"{split.split.upper()} EXAMPLE", "PAYLOAD"], rows)
            print_text()
    for diagnostic in report.diagnostics:
        print_text(f"{diagnostic['severity']}: {diagnostic['message']}")
    if report.rollout is not None:
        rewards = ", ".join(f"{name} {value:.3g}" for name, value in report.rollout.rewards.items())
        said = "the right answer" if report.rollout.answer == "right" else "ok"
        print_text(
            f"one rollout, answered with {said}: {report.rollout.termination_reason}, rewards: {rewards or 'none'}"
        )
    for fault in report.faults:
        print_text(f"FAULT: {fault}")
    verdict = "cannot be used" if report.faults else f"loads in {report.seconds:.1f} s"
    print_text(f"{report.class_name or 'the bundle'}: {verdict}")


def _fields(bundle: Bundle, key: Path | None = None) -> dict[str, object]:
    shown = _describe(bundle, key)
    return {
        "digest": shown["digest"],
        "signature": shown["signature"],
        "python": shown["python_version"],
        "benchmax": shown["benchmax_version"],
        "needs": ", ".join(shown["dependencies"]) or "nothing",
        "imports": ", ".join(shown["imports"]) or "nothing",
        "size": f"{shown['pickle_bytes']:,} bytes of code and arguments, "
        f"{len(shown['data_files'])} data files of {shown['data_bytes']:,} bytes",
        **({"secrets": "; ".join(shown["secrets"])} if shown["secrets"] else {}),
    }


def _describe(bundle: Bundle, key: Path | None = None) -> dict[str, Any]:
    """Return what can be said of a bundle without running it, as JSON values."""
    from benchmax.bundle import bundle_digest
    from benchmax.bundle.inspection import inspect_pickle

    inspected = inspect_pickle(bundle)
    signature = "none" if bundle.signature is None else "not checked: no key was given"
    return {
        "digest": bundle_digest(bundle),
        "signature": signature if key is None else "good",
        "python_version": bundle.metadata.python_version,
        "benchmax_version": bundle.metadata.benchmax_version,
        "dependencies": list(bundle.metadata.pip_dependencies),
        "imports": list(inspected.packages),
        "pickle_bytes": len(bundle.pickled),
        "data_files": [file.path for file in bundle.data.files],
        "data_bytes": bundle.data.size,
        "secrets": [str(finding) for finding in inspected.secrets],
    }


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value} is not at least 1")
    return value


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{value} is not a number of seconds")
    return value
