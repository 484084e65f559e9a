"""Find out whether an environment can be trained on, before anything is spent on training.

In order: what the environment knows to be wrong with itself; the right answers and the
probes, which need no model; two siblings on the first example under the real contract;
samples on more examples; the same transcripts scored again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmax.envs import Environment, Example
from castform.calls import Sampling
from castform.diagnostics import read_diagnostics
from castform.endpoint import Endpoint
from castform.probe_findings import judge_probes
from castform.probes import ProbeReport
from castform.probing import run_probes
from castform.replay import replay_groups
from castform.rollouts import ROLLOUT_TIMEOUT, RolloutGroup, Split, run_group
from castform.sample_findings import judge_replay
from castform.sampled import sample_examples
from castform.seeds import derive_seed
from castform.validation import Finding, ValidationReport

REPLAYED_GROUPS = 8
"""Groups that are scored a second time."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ValidateOptions:
    """How a validation is done."""

    split: Split = "train"
    samples: int = 4
    sampling: Sampling = field(default_factory=Sampling)
    weights: Mapping[str, float] | None = None
    seed: int = 0
    concurrency: int = 128
    max_context_tokens: int | None = None
    timeout_seconds: float = 600.0
    """Of one group."""


async def validate(
    environment: Environment[Any, Any],
    examples: Sequence[Example[Any]],
    *,
    endpoint: Endpoint | None = None,
    version: int | None = None,
    options: ValidateOptions | None = None,
    on_stage: Callable[[str], None] = lambda stage: None,
    on_group: Callable[[RolloutGroup], None] = lambda group: None,
    record: Callable[[Sequence[RolloutGroup]], None] | None = None,
) -> ValidationReport:
    """Look at an environment, with a model when there is an endpoint, and report.

    `version` is the adapter version to sample from.
    Without an endpoint the report says what was left unchecked. `on_stage` is told what begins,
    `on_group` of each group sampled from the model; `record` gets those groups to store.
    What environment code does wrong is reported; what the endpoint raises is raised.
    """
    options = options or ValidateOptions()
    work = _Validation(environment, examples, options)
    on_stage("diagnostics")
    if work.read_diagnostics():
        return work.report(endpoint)
    on_stage("right answers and probes")
    await work.probe()
    if endpoint is None:
        work.findings.append(
            Finding(
                level="unchecked",
                code="model",
                message="no model was asked, so nothing is known of signal, pass rates, lengths and speed; "
                "name one with -m",
            )
        )
        on_stage("scoring again")
        await work.replay(work.probes.groups if work.probes else ())
        return work.report(endpoint)
    on_stage("two siblings on the first example")
    if await work.run_siblings(endpoint, version):
        return work.report(endpoint)
    on_stage(f"{options.samples} samples on {len(examples)} examples")
    groups: list[RolloutGroup] = []

    def keep(group: RolloutGroup) -> None:
        if len(groups) < REPLAYED_GROUPS:
            groups.append(group)
        on_group(group)

    await work.sample(endpoint, version, keep, record)
    on_stage("scoring again")
    await work.replay(groups)
    return work.report(endpoint)


class _Validation:
    """A validation in progress: the findings so far."""

    def __init__(
        self, environment: Environment[Any, Any], examples: Sequence[Example[Any]], options: ValidateOptions
    ) -> None:
        self.environment = environment
        self.examples = examples
        self.options = options
        self.began = time.perf_counter()
        self.findings: list[Finding] = []
        self.probes: ProbeReport | None = None
        self.parts: dict[str, Any] = {}  # the report's optional fields, filled as stages end

    def read_diagnostics(self) -> bool:
        """Return whether the environment itself reports an error."""
        found = read_diagnostics(self.environment)
        self.findings += found
        return any(finding.level == "fault" for finding in found)

    async def probe(self) -> None:
        try:
            self.probes = await run_probes(
                self.environment,
                self.examples,
                split=self.options.split,
                weights=self.options.weights or {},
                seed=self.options.seed,
                timeout_seconds=self.options.timeout_seconds,
            )
        except RuntimeError as error:  # gold() raised
            self._fault("gold_raises", str(error))
            return
        self.parts["probes"] = self.probes
        self.findings += judge_probes(self.probes)

    async def run_siblings(self, endpoint: Endpoint, version: int | None) -> bool:
        """Run two rollouts under the whole contract; return whether neither came through."""
        options = self.options
        group = await run_group(
            self.environment,
            self.examples[0],
            endpoint=endpoint,
            split=options.split,
            group_id="siblings",
            size=2,
            sampling=options.sampling,
            seed=derive_seed(options.seed, "siblings"),
            weights=options.weights or {},
            max_context_tokens=options.max_context_tokens,
            version=version,
            timeout_seconds=options.timeout_seconds,
        )
        broken: list[str] = []
        for rollout in group.rollouts:
            if rollout.termination_reason == ROLLOUT_TIMEOUT:
                broken.append(f"not done after {options.timeout_seconds:g} s")
            elif rollout.termination_reason not in self.environment.scorable_termination_reasons:
                broken.append(f"{rollout.termination_reason}: {rollout.error or 'no error text'}")
            elif rollout.error:
                broken.append(rollout.error)
            elif not rollout.calls:
                full = rollout.termination_reason == "context_exceeded"
                broken.append(
                    "the first prompt does not fit the context budget"
                    if full
                    else "it never called the model"
                )
        for text in dict.fromkeys(broken):
            message = f"on the first example, {broken.count(text)} of 2 siblings failed: {text}"
            if len(broken) == 2:
                self._fault("contract", message)
            else:
                self.findings.append(Finding(level="warning", code="contract", message=message))
        if all(len(rollout.calls) == 1 for rollout in group.rollouts):
            self.findings.append(
                Finding(
                    level="note",
                    code="one_call",
                    message="each sibling called the model once, so longer conversations were not exercised there",
                )
            )
        return len(broken) == 2

    async def sample(
        self,
        endpoint: Endpoint,
        version: int | None,
        on_group: Callable[[RolloutGroup], None],
        record: Callable[[Sequence[RolloutGroup]], None] | None,
    ) -> None:
        sampled = await sample_examples(
            self.environment,
            self.examples,
            endpoint=endpoint,
            version=version,
            options=self.options,
            probes=self.probes,
            name="validate",
            timeout_seconds=self.options.timeout_seconds,
            on_group=on_group,
            record=record,
        )
        self.parts["result"] = sampled.result
        self.findings += sampled.findings

    async def replay(self, groups: Sequence[RolloutGroup]) -> None:
        by_id = {example.id: example for example in self.examples}
        report = await replay_groups(
            self.environment,
            [(by_id[group.example_id], group) for group in groups[:REPLAYED_GROUPS]],
            split=self.options.split,
            weights=self.options.weights or {},
            timeout_seconds=self.options.timeout_seconds,
        )
        self.parts["replay"] = report
        self.findings += judge_replay(report)

    def report(self, endpoint: Endpoint | None) -> ValidationReport:
        return ValidationReport(
            model=endpoint.model if endpoint else None,
            split=self.options.split,
            examples=len(self.examples),
            findings=tuple(self.findings),
            max_context_tokens=self.options.max_context_tokens,
            seconds=time.perf_counter() - self.began,
            **self.parts,
        )

    def _fault(self, code: str, message: str) -> None:
        self.findings.append(Finding(level="fault", code=code, message=message))
