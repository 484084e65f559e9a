"""The figures of a certificate, each with its n and a Wilson 95 % interval.

False-pass ceiling: what the best wrong answer gets away with, that is the highest share of
examples on which a probe that needs no knowledge of the right answer is paid in full.
False-fail rate: the share of right answers, written otherwise, that are not paid in full.
Lazy-policy reward: what always giving the most common answer earns, of the right answers' pay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from castform.intervals import wilson_interval
from castform.probes import ProbeOutcome, ProbeReport


@dataclass(frozen=True, kw_only=True, slots=True)
class Rate:
    """A share of n, and how sure it is."""

    share: float
    n: int
    low: float
    high: float
    what: str = ""
    """The probe, or the answer, that it is about."""

    def as_dict(self) -> dict[str, Any]:
        return {"share": self.share, "n": self.n, "low": self.low, "high": self.high, "what": self.what}

    def __str__(self) -> str:
        return f"{self.share:.3f} ({self.low:.3f} to {self.high:.3f}, n = {self.n})"


@dataclass(frozen=True, kw_only=True, slots=True)
class Rates:
    """What the probes measured. None: nothing to measure it on."""

    false_pass_ceiling: Rate | None
    """Of one example: the worst probe's share."""
    any_false_pass: Rate | None
    """Share of examples on which at least one such probe is paid in full."""
    false_fail: Rate | None
    """Over all plays of right rewritings; plays on one example are counted as if independent."""
    lazy_policy: Rate | None
    """Mean share of the right answers' pay, which lies between 0 and 1: the interval is at most too wide."""

    def named(self) -> dict[str, Rate]:
        """Return those that were measured, by what they are called in words."""
        found = {
            "false-pass ceiling": self.false_pass_ceiling,
            "any false pass": self.any_false_pass,
            "false fails": self.false_fail,
            "lazy policy": self.lazy_policy,
        }
        return {name: rate for name, rate in found.items() if rate is not None}

    def as_dict(self) -> dict[str, Any]:
        return {
            "false_pass_ceiling": _plain(self.false_pass_ceiling),
            "any_false_pass": _plain(self.any_false_pass),
            "false_fail": _plain(self.false_fail),
            "lazy_policy": _plain(self.lazy_policy),
        }


def measure_rates(report: ProbeReport) -> Rates:
    """Return the figures of a probe report."""
    wrong = [o for o in report.outcomes if o.verdict == "wrong" and not o.needs_gold and o.counted]
    right = [o for o in report.outcomes if o.verdict == "right" and o.counted]
    return Rates(
        false_pass_ceiling=_ceiling(wrong),
        any_false_pass=_any_pass(wrong),
        false_fail=_make_rate(sum(len(o.unpaid) for o in right), sum(o.counted for o in right)),
        lazy_policy=_lazy(report),
    )


def _ceiling(outcomes: Sequence[ProbeOutcome]) -> Rate | None:
    """Return the rate of the worst probe; of equal ones that with the tightest interval."""
    rates = [_make_rate(len(o.paid_in_full), o.counted, o.name) for o in outcomes]
    found = [rate for rate in rates if rate is not None]
    return max(found, key=lambda rate: (rate.share, rate.n), default=None)


def _any_pass(outcomes: Sequence[ProbeOutcome]) -> Rate | None:
    passed = {example for o in outcomes for example in o.paid_in_full}
    played = passed | {example for o in outcomes for example in o.unpaid}
    return _make_rate(len(passed), len(played))


def _lazy(report: ProbeReport) -> Rate | None:
    constant = report.outcome("constant")
    if constant is None or constant.share_of_gold is None or not constant.scored:
        return None
    share = min(max(constant.share_of_gold, 0.0), 1.0)
    return _make_rate(share * constant.scored, constant.scored, report.majority or "")


def _make_rate(hits: float, n: int, what: str = "") -> Rate | None:
    if n == 0:
        return None
    low, high = wilson_interval(hits, n)
    return Rate(share=hits / n, n=n, low=low, high=high, what=what)


def _plain(rate: Rate | None) -> dict[str, Any] | None:
    return None if rate is None else rate.as_dict()
