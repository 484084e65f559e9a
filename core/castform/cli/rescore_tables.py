"""What a rescoring showed, as tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from castform.cli.output import print_table, print_text
from castform.safe_text import safe_line

if TYPE_CHECKING:
    from castform.rescore_report import ComponentChange, RescoreReport

MOST_SHOWN = 10
"""Examples and ids; --json has all."""


def print_result(report: RescoreReport) -> None:
    """Write counts, components and the most changed examples as tables."""
    counts = report.as_dict()["counts"]
    line = f"{counts['rescored']} rollouts scored again: {counts['unchanged']} unchanged, {counts['changed']} changed"
    for name, words in (("newly_scored", "newly scored"), ("no_longer_scored", "no longer scored")):
        line += f", {counts[name]} {words}" if counts[name] else ""
    print_text(line)
    print_table(
        ["REWARD", "BEFORE", "AFTER", "DIFFERENCE", "95 % INTERVAL", "CHANGED"],
        [_component_row(found) for found in report.components],
    )
    print_text()
    if len(report.modes) > 1:
        print_table(
            ["MODE", "BEFORE", "AFTER", "CHANGED"],
            [
                [
                    found.mode,
                    _number(found.before),
                    _number(found.after),
                    f"{found.changed} of {found.rollouts}",
                ]
                for found in report.modes
            ],
        )
        print_text()
    changed = [example for example in report.examples if example.changed]
    if changed:
        print_table(
            ["EXAMPLE", "BEFORE", "AFTER", "DIFFERENCE", "CHANGED"],
            [
                [
                    safe_line(found.example_id)[:40],
                    _number(found.before),
                    _number(found.after),
                    f"{found.difference:+.3f}",
                    f"{found.changed} of {found.rollouts}",
                ]
                for found in changed[:MOST_SHOWN]
            ],
        )
        if len(changed) > MOST_SHOWN:
            print_text(f"and {len(changed) - MOST_SHOWN} more examples (--json has all)")
        print_text()
    endings = [
        rollout
        for rollout in report.changed
        if rollout.before.termination_reason != rollout.after.termination_reason
    ]
    for rollout in endings[:MOST_SHOWN]:
        error = f" ({safe_line(rollout.after.error)})" if rollout.after.error else ""
        print_text(
            f"{rollout.rollout_id}: ended by {safe_line(rollout.before.termination_reason)}, "
            f"now by {safe_line(rollout.after.termination_reason)}{error}"
        )
    if len(endings) > MOST_SHOWN:
        print_text(f"and {len(endings) - MOST_SHOWN} more that end otherwise now")


def _component_row(found: ComponentChange) -> list[str]:
    known = found.difference is not None
    return [
        safe_line(found.name),
        _number(found.before),
        _number(found.after),
        f"{found.difference:+.3f}" if known else "-",
        f"{found.low:+.3f} to {found.high:+.3f}" if known else "-",
        f"{found.changed} of {found.rollouts}",
    ]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def some(ids: Sequence[str]) -> str:
    """Return the first ids, and how many more there are."""
    more = len(ids) - MOST_SHOWN
    return ", ".join(map(safe_line, ids[:MOST_SHOWN])) + (f" and {more} more" if more > 0 else "")
