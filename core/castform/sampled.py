"""Sample an environment from a model to judge it: what validate and certify share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from benchmax.envs import Environment, Example
from castform.calls import Sampling
from castform.endpoint import Endpoint
from castform.eval_result import DEFAULT_PASS_AT, EvalResult
from castform.evaluate import evaluate
from castform.probes import ProbeReport
from castform.rollouts import RolloutGroup, Split
from castform.sample_findings import judge_result
from castform.validation import Finding


class SampleOptions(Protocol):
    """What the options of a validation and of a certification have in common."""

    @property
    def split(self) -> Split: ...
    @property
    def samples(self) -> int: ...
    @property
    def sampling(self) -> Sampling: ...
    @property
    def seed(self) -> int: ...
    @property
    def weights(self) -> Mapping[str, float] | None: ...
    @property
    def concurrency(self) -> int: ...
    @property
    def max_context_tokens(self) -> int | None: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Sampled:
    """What came out of the samples, and what is to say of it."""

    result: EvalResult
    pass_at: float
    """The score of a right answer."""
    findings: Sequence[Finding]


async def sample_examples(
    environment: Environment[Any, Any],
    examples: Sequence[Example[Any]],
    *,
    endpoint: Endpoint,
    version: int | None,
    options: SampleOptions,
    probes: ProbeReport | None,
    name: str,
    timeout_seconds: float,
    on_group: Callable[[RolloutGroup], None],
    record: Callable[[Sequence[RolloutGroup]], None] | None,
) -> Sampled:
    """Sample groups under the whole contract of training. Raises what `evaluate` raises.

    What passes is what earns as much as a right answer did among the `probes`; where none was
    paid, or not all were, DEFAULT_PASS_AT. `name` must be new to the endpoint; a group is ended
    after `timeout_seconds`.
    """
    full = None if probes is None or probes.unpaid_gold else probes.full_score
    pass_at = DEFAULT_PASS_AT if full is None else full
    result = await evaluate(
        environment,
        examples,
        endpoint=endpoint,
        samples=options.samples,
        sampling=options.sampling,
        seed=options.seed,
        split=options.split,
        name=name,
        weights=options.weights,
        concurrency=options.concurrency,
        enforce_sampling=True,
        max_context_tokens=options.max_context_tokens,
        version=version,
        timeout_seconds=timeout_seconds,
        pass_at=pass_at,
        on_group=on_group,
        record=record,
    )
    findings = judge_result(result, full_score=pass_at, max_context_tokens=options.max_context_tokens)
    return Sampled(result=result, pass_at=pass_at, findings=findings)
