"""Say in words what a forecast means for a training run."""

from __future__ import annotations

from castform.certify.forecast import NEARLY_BEST, Forecast
from castform.validation import Finding, Level

CHECK = "forecast"
LITTLE = 0.1
"""Share of effective groups below which a run would mostly wait."""
SOME_INVALID = 0.05


def judge_forecast(forecast: Forecast) -> list[Finding]:
    """Return what a forecast has to say: of its signal, of invalid groups, a group size and a filter."""
    largest = forecast.at_samples
    if largest is None:
        return [
            _finding(
                "unchecked",
                "no_forecast",
                "no example has two scored samples, so there is nothing to forecast from",
            )
        ]
    findings: list[Finding] = []
    effective = largest.effective
    counts = ", ".join(
        f"{forecast.kinds[kind]} {kind.replace('_', ' ')}" for kind in forecast.kinds if forecast.kinds[kind]
    )
    if effective.value < LITTLE:
        findings.append(
            _finding(
                "warning",
                "forecast_little_signal",
                f"of groups of {largest.group_size}, {effective.value:.0%} ({effective.low:.0%} to "
                f"{effective.high:.0%}) would have differing scores; of {forecast.examples} examples: {counts}",
            )
        )
    if forecast.fractions["invalid"].value > SOME_INVALID:
        findings.append(
            _finding(
                "warning",
                "forecast_invalid",
                f"on {forecast.kinds['invalid']} of {forecast.examples} examples fewer than two samples were scored",
            )
        )
    if forecast.suggested_group_size is not None:
        last = forecast.suggested_group_size == largest.group_size
        findings.append(
            _finding(
                "note",
                "suggested_group_size",
                f"groups of {forecast.suggested_group_size} keep {NEARLY_BEST:.0%} or more of the useful share of "
                f"groups of {largest.group_size}"
                + (", the largest that was sampled; larger ones may do better" if last else ""),
            )
        )
    if forecast.dropped:
        findings.append(_suggest_filter(forecast))
    return findings


def _suggest_filter(forecast: Forecast) -> Finding:
    solved = [example for example in forecast.dropped if example.kind == "always_solved"]
    never = [example for example in forecast.dropped if example.kind == "never_solved"]
    sure = (
        [f"{len(solved)} always solved (chance at least {min(e.chance_low for e in solved):.0%})"]
        if solved
        else []
    )
    if never:
        sure.append(f"{len(never)} never solved (chance at most {max(e.chance_high for e in never):.0%})")
    saved = (
        "" if forecast.dropped_tokens is None else f"; {forecast.dropped_tokens:.0%} of the tokens went there"
    )
    return _finding(
        "note",
        "suggested_filter",
        f"a filter could leave out {len(forecast.dropped)} of {forecast.examples} examples: {' and '.join(sure)}{saved}",
        forecast.dropped[0].example_id,
    )


def _finding(level: Level, code: str, message: str, example_id: str | None = None) -> Finding:
    return Finding(level=level, code=code, message=message, check=CHECK, example_id=example_id)
