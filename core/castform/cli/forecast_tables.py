"""What a model's groups would give, as tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from castform.cli.output import print_table, print_text

WHAT: dict[str, str] = {
    "effective": "scores differ: a gradient",
    "too_easy": "all samples earn full marks",
    "too_hard": "no sample earns anything",
    "level": "all samples earn the same part",
    "invalid": "fewer than two samples were scored",
}
SIZES = (2, 4, 8, 16, 32, 64)
"""Group sizes that are shown, with the largest that was sampled and the suggested one; --json has all."""


def print_forecast(forecast: Mapping[str, Any]) -> None:
    """Write what the examples came to, and what groups of each size would give.

    `forecast` is what `Certification.forecast` holds.
    """
    samples = forecast["samples"]
    print_table(
        [f"OF {samples} SAMPLES EACH", "EXAMPLES", "SHARE", "95 % INTERVAL", "WHAT"],
        [
            [kind.replace("_", " "), forecast["kinds"][kind], *_share(forecast["fractions"][kind]), what]
            for kind, what in WHAT.items()
            if kind in forecast["kinds"]
        ],
    )
    print_text()
    if not forecast["sizes"]:
        return
    suggested = forecast["suggested_group_size"]
    groups = forecast["groups_per_step"]
    shown = {*SIZES, suggested, forecast["sizes"][-1]["group_size"]}
    print_table(
        ["GROUP SIZE", "WITH SIGNAL", "95 % INTERVAL", "USEFUL TOKENS A STEP", "OF ALL TOKENS", ""],
        [
            [
                size["group_size"],
                *_share(size["effective"]),
                _number(forecast["useful_tokens_per_step"][str(size["group_size"])]),
                "-" if size["useful_share"] is None else f"{size['useful_share']:.0%}",
                "suggested" if size["group_size"] == suggested else "",
            ]
            for size in forecast["sizes"]
            if size["group_size"] in shown
        ],
    )
    print_text(f"a step has {groups} groups (rl.groups_per_step)")
    print_text()


def _share(share: Mapping[str, float]) -> tuple[str, str]:
    return f"{share['value']:.3f}", f"{share['low']:.3f} to {share['high']:.3f}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"
