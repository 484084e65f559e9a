"""What a validation found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from castform.eval_result import EvalResult
from castform.probes import ProbeReport
from castform.replay import ReplayReport

Level = Literal["fault", "warning", "note", "unchecked"]
"""fault: cannot be trained on; unchecked: this was not looked at, and why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One thing that validation has to say."""

    level: Level
    code: str
    """Stable name, for programs."""
    message: str
    check: str = ""
    """Name of the check or probe that found it, as `castform env certify --only` takes it."""
    example_id: str | None = None
    """An example on which it shows."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ValidationReport:
    """Everything that was looked at. The parts are None where a fault came before them."""

    model: str | None
    """None: no model was asked."""
    split: str
    examples: int
    findings: Sequence[Finding]
    probes: ProbeReport | None = None
    result: EvalResult | None = None
    replay: ReplayReport | None = None
    max_context_tokens: int | None = None
    seconds: float = 0.0

    @property
    def faults(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.level == "fault"]

    @property
    def trainable(self) -> bool | None:
        """Whether this environment can be trained on with this model; None: no fault, but no model either."""
        if self.faults:
            return False
        return None if self.model is None else True

    def describe(self) -> str:
        """Return the conclusion as one sentence."""
        if self.trainable is None:
            return "no fault found, but not checked with a model: whether it can be trained on is open"
        if self.trainable:
            return f"can be trained on with {self.model}"
        why = "; ".join(fault.code.replace("_", " ") for fault in self.faults)
        return f"cannot be trained on{f' with {self.model}' if self.model else ''}: {why}"

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values, without transcripts."""
        data: dict[str, Any] = {
            "trainable": self.trainable,
            "conclusion": self.describe(),
            "model": self.model,
            "split": self.split,
            "examples": self.examples,
            "seconds": self.seconds,
            "findings": [asdict(finding) for finding in self.findings],
            "max_context_tokens": self.max_context_tokens,
            "probes": None,
            "result": None if self.result is None else self.result.as_dict(with_examples=False),
            "replay": None if self.replay is None else asdict(self.replay),
        }
        if self.probes is not None:
            data["probes"] = describe_probes(self.probes)
        return data


def describe_probes(report: ProbeReport) -> dict[str, Any]:
    """Return a probe report as JSON values, without transcripts."""
    return {
        "rendering": report.rendering,
        "full_score": report.full_score,
        "gold": None if report.gold is None else asdict(report.gold),
        "unpaid_gold": list(report.unpaid_gold),
        "outcomes": [{**asdict(outcome), "scores": outcome.scores} for outcome in report.outcomes],
        "crashes": [asdict(crash) for crash in report.crashes],
        "unreachable": [asdict(crash) for crash in report.unreachable],
        "inapplicable": list(report.inapplicable),
        "skipped": list(report.skipped),
        "majority": report.majority,
    }
