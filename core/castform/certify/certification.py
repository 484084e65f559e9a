"""What a certification found."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from castform.calls import Sampling
from castform.certify.rates import Rates
from castform.eval_result import EvalResult
from castform.plugins.pins import EnvironmentPin
from castform.probes import ProbeReport
from castform.replay import ReplayReport
from castform.rollouts import Split
from castform.validation import Finding, describe_probes

Verdict = Literal["passed", "failed", "unchecked"]

DEFAULT_EXAMPLES = 24
"""A probe that is never paid on so many has a false-pass rate of at most 0.14 (Wilson, 95 %)."""
DEFAULT_MAX_SECONDS = 180.0
DEFAULT_SAMPLES = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class CertifyOptions:
    """How a certification is done. Picklable: it goes to worker processes."""

    split: Split = "train"
    examples: int = DEFAULT_EXAMPLES
    """First so many of the split."""
    seed: int = 0
    weights: Mapping[str, float] = field(default_factory=dict)
    timeout_seconds: float = 30.0
    """Of one group of probes."""
    max_seconds: float = DEFAULT_MAX_SECONDS
    """Of everything. What does not fit is reported as unchecked."""
    only: str | None = None
    """One probe or check by name; None: all."""
    example: str | None = None
    """Play on this example alone."""
    accepted: Mapping[str, str] = field(default_factory=dict)
    """Finding code to the author's reason why it is no fault."""
    samples: int = DEFAULT_SAMPLES
    """Rollouts an example, where a model is asked."""
    sampling: Sampling = field(default_factory=Sampling)
    groups_per_step: int = 8
    """Groups of one training step, to say how many useful tokens it would have."""
    concurrency: int = 128
    max_context_tokens: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Certification:
    """Everything that was looked at, and what came of it."""

    id: str
    """As `castform env certify` takes it."""
    pin: EnvironmentPin
    package: str = ""
    """Top-level package of the code that made it; empty for a file."""
    options: CertifyOptions
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the environment that were given."""
    base_dir: str = ""
    """Where relative dataset paths start, if that was said."""
    examples: int = 0
    """How many there were to play on."""
    findings: Sequence[Finding] = ()
    probes: ProbeReport | None = None
    rates: Rates | None = None
    replay: ReplayReport | None = None
    model: str | None = None
    """None: no model was asked."""
    model_flags: Mapping[str, str] = field(default_factory=dict)
    """Options of the command line that say where the model is, without secrets."""
    result: EvalResult | None = None
    forecast: Mapping[str, Any] | None = None
    """What training would look like with the model; None: not forecast."""
    seconds: float = 0.0
    stage_seconds: Mapping[str, float] = field(default_factory=dict)

    @property
    def faults(self) -> list[Finding]:
        """Faults that the author has not accepted."""
        return [f for f in self.findings if f.level == "fault" and f.code not in self.options.accepted]

    @property
    def complete(self) -> bool:
        """Whether the reward was looked at: some probe was scored, and some right answer where there are any."""
        probes = self.probes
        if probes is None or not any(outcome.scored for outcome in probes.outcomes):
            return False
        return probes.gold is None or probes.gold.scored > 0

    @property
    def passed(self) -> bool:
        """Whether the reward was looked at and no fault is left."""
        return self.complete and not self.faults

    @property
    def verdict(self) -> Verdict:
        """What to make of it: unchecked where nothing was scored, so that nothing is known of the reward."""
        if self.faults:
            return "failed"
        return "passed" if self.complete else "unchecked"

    @property
    def unused_accepts(self) -> list[str]:
        """Accepted codes that nothing was found under."""
        found = {finding.code for finding in self.findings}
        return [code for code in self.options.accepted if code not in found]

    def describe(self) -> str:
        """Return the conclusion as one sentence."""
        if self.options.only is not None:
            return f"{self.options.only}: {'found again' if self.still_there else 'nothing found'}"
        if not self.faults:
            if not self.complete:
                return "unchecked: no answer was scored, so nothing is known of the reward"
            count = sum(finding.level == "unchecked" for finding in self.findings)
            return "no fault found" + (f", {count} point{'s' * (count > 1)} not checked" if count else "")
        codes = dict.fromkeys(finding.code for finding in self.faults)
        return f"not sound: {', '.join(code.replace('_', ' ') for code in codes)}"

    @property
    def still_there(self) -> bool:
        """Whether the probe or check that was asked for alone found something, accepted or not."""
        return any(finding.level in ("fault", "warning", "note") for finding in self.findings)

    def reproduce(self, finding: Finding) -> str | None:
        """Return the command that shows a finding again, None where there is none."""
        if not finding.check or finding.level == "unchecked":
            return None
        options, default = self.options, CertifyOptions()
        words = ["castform", "env", "certify", self.id, "--only", finding.check]
        if finding.example_id is not None:
            dashed = finding.example_id.startswith("-")  # which reads as an option
            words += [f"--example={finding.example_id}"] if dashed else ["--example", finding.example_id]
        words += [part for name, value in self.arguments.items() for part in ("-a", f"{name}={_toml(value)}")]
        for flag, value, usual in (
            ("--split", options.split, default.split),
            ("--examples", options.examples, default.examples),
            ("--seed", options.seed, default.seed),
        ):
            words += [] if value == usual else [flag, str(value)]
        words += [
            part
            for name, weight in options.weights.items()
            for part in ("--set", f"environment.weights.{name}={weight:g}")
        ]
        words += ["--set", f"environment.base_dir={_toml(self.base_dir)}"] if self.base_dir else []
        if finding.check in MODEL_CHECKS and self.model is not None:
            words += ["-m", self.model, *(word for flag in self.model_flags.items() for word in flag)]
            words += [] if options.samples == default.samples else ["--samples", str(options.samples)]
        return " ".join(map(_quote, words))

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values, without transcripts."""
        return {
            "passed": self.passed,
            "verdict": self.verdict,
            "complete": self.complete,
            "conclusion": self.describe(),
            "id": self.id,
            "environment": self.pin.as_dict(),
            "split": self.options.split,
            "examples": self.examples,
            "seed": self.options.seed,
            "weights": dict(self.options.weights),
            "model": self.model,
            "seconds": self.seconds,
            "stage_seconds": dict(self.stage_seconds),
            "rates": None if self.rates is None else self.rates.as_dict(),
            "findings": [self._finding(finding) for finding in self.findings],
            "accepted": dict(self.options.accepted),
            "unchecked": [asdict(finding) for finding in self.findings if finding.level == "unchecked"],
            "probes": None if self.probes is None else describe_probes(self.probes),
            "replay": None if self.replay is None else asdict(self.replay),
            "result": None if self.result is None else self.result.as_dict(with_examples=False),
            "forecast": None if self.forecast is None else dict(self.forecast),
        }

    def _finding(self, finding: Finding) -> dict[str, Any]:
        return {
            **asdict(finding),
            "accepted": self.options.accepted.get(finding.code),
            "reproduce": self.reproduce(finding),
        }


MODEL_CHECKS = frozenset({"forecast", "siblings", "model"})
"""Checks that ask a model."""


def _toml(value: object) -> str:
    """Return an argument as the command line takes it: TOML, or a text that TOML would not read otherwise."""
    from castform.config import parse_value

    if isinstance(value, str) and parse_value(value) == value:
        return value
    return _toml_value(value)


def _toml_value(value: object) -> str:
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_toml_value(str(k))} = {_toml_value(v)}' for k, v in value.items())}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml_value, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)  # inf and nan as TOML has them too
    text = json.dumps(str(value), ensure_ascii=False)
    return text.replace("\x7f", "\\u007f")


def _quote(word: str) -> str:
    """Return a word for a shell; what a terminal would not show as it is stands as bytes in $'…'."""
    if word.isprintable():
        return shlex.quote(word)
    parts = (
        "\\" + c if c in "\\'" else c if c.isprintable() else _escape_bytes(c) for c in word
    )  # octal ends after three digits, hexadecimal goes on
    return f"$'{''.join(parts)}'"


def _escape_bytes(character: str) -> str:
    return "".join(f"\\{byte:03o}" for byte in character.encode("utf-8", "surrogatepass"))
