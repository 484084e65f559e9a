"""`castform env certify` over several environments: in worker processes, with one table at the end."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from castform.cli.output import print_json, print_note, print_table, print_text
from castform.errors import MissingError, UsageError

if TYPE_CHECKING:
    from castform.certify.batch import BatchResult
    from castform.certify.certification import Certification, CertifyOptions
    from castform.certify.rates import Rate

EXIT_FAULT = 1
SOMETHING_MISSING = "something_missing"
"""Code of a failure that says nothing of the environment."""
MAX_SECONDS = 60.0
"""Of each environment, where the command line does not say."""
FOR_ONE_ALONE = ("only", "example", "output", "model", "base_url", "adapter")
"""Options that mean one environment."""


def expand_ids(words: Sequence[str]) -> list[str]:
    """Return the ids that are meant, each once: `arith/*` is each of a plugin's, and so is a bare plugin
    with several environments of which none is the default.

    UsageError for a pattern that fits none.
    """
    from castform.plugins import EnvironmentSpec
    from castform.plugins.environment_files import is_path
    from castform.plugins.loader import load_registry

    ids: dict[str, None] = {}
    for word in words:
        name, slash, pattern = word.partition("/")
        if is_path(word) or (slash and not set(pattern) & set("*?[")):
            ids[word] = None
            continue
        plugin = load_registry().load(name)
        members = list(plugin.specs(EnvironmentSpec))
        if not slash and ("default" in members or len(members) < 2):
            ids[word] = None
            continue
        found = [member for member in members if not slash or fnmatchcase(member, pattern.replace("_", "-"))]
        if not found:
            raise UsageError(
                f"plugin {plugin.name!r} has no environment that fits {pattern!r}",
                hint=f"`castform env list {plugin.name}` shows what it has",
            )
        ids |= {f"{plugin.name}/{member}": None for member in found}
    return list(ids)


def certify_many(
    args: argparse.Namespace,
    ids: Sequence[str],
    *,
    arguments: dict[str, Any],
    options: CertifyOptions,
    save: Callable[[Certification], object],
) -> int:
    """Certify each, show progress, then all of them; 1 when one has a fault or could not be looked at, 3 when
    that is only because something is missing here.

    `save` gets every certification as it comes.
    """
    from castform.certify.batch import certify_batch

    for name in FOR_ONE_ALONE:
        if getattr(args, name, None) is not None:
            flag = name.replace("_", "-")
            raise UsageError(
                f"--{flag} is for one environment, not for {len(ids)}", hint="certify that one alone with it"
            )
    if args.max_seconds is None:
        options = replace(options, max_seconds=MAX_SECONDS)
    began = time.monotonic()
    done = 0

    def show(result: BatchResult) -> None:
        nonlocal done
        done += 1
        if result.certification is not None:
            save(result.certification)
        print_note(f"{done} of {len(ids)}: {result.id}: {result.describe()} ({result.seconds:.1f} s)")

    results = certify_batch(ids, arguments=arguments, options=options, jobs=args.jobs, on_result=show)
    passed = all(result.passed for result in results)
    seconds = time.monotonic() - began
    if args.json:
        print_json(
            {
                "passed": passed,
                "seconds": seconds,
                "environments": [{**result.as_dict(), "id": result.id} for result in results],
            }
        )
    else:
        print_batch(results)
        failed, unchecked = (sum(r.verdict == kind for r in results) for kind in ("failed", "unchecked"))
        rest = f", {unchecked} unchecked" if unchecked else ""
        print_text(f"{len(results)} environments, {failed} with a fault{rest}, {seconds:.0f} s")
    if passed:
        return 0
    missing = all(result.passed or _is_missing(result) for result in results)
    return MissingError.exit_code if missing else EXIT_FAULT


def _is_missing(result: BatchResult) -> bool:
    return result.failure is not None and result.failure.code == SOMETHING_MISSING


def print_batch(results: Sequence[BatchResult]) -> None:
    """Write one row an environment."""
    print_table(
        ["ENVIRONMENT", "VERDICT", "FALSE PASS", "BY", "FALSE FAIL", "LAZY", "FAULTS AND WARNINGS"],
        [_row(result) for result in results],
    )


def _row(result: BatchResult) -> list[str]:
    rates = result.certification.rates if result.certification else None
    ceiling = rates.false_pass_ceiling if rates else None
    codes = dict.fromkeys(f.code for f in result.findings if f.level in ("fault", "warning"))
    return [
        result.id,
        _verdict(result),
        _share(ceiling),
        ceiling.what if ceiling and ceiling.share else "",
        _share(rates.false_fail if rates else None),
        _share(rates.lazy_policy if rates else None),
        ", ".join(codes),
    ]


def _verdict(result: BatchResult) -> str:
    if result.verdict == "failed":
        return "FAULT" if result.certification else "not certified"
    return "no fault" if result.passed else "unchecked"


def _share(rate: Rate | None) -> str:
    return "-" if rate is None else f"{rate.share:.2f}"
