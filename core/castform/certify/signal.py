"""With a model: would its groups give a gradient?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from benchmax.envs import Environment, Example
from castform.certify.certification import CertifyOptions
from castform.certify.forecast import forecast_results
from castform.certify.forecast_findings import judge_forecast
from castform.endpoint import Endpoint
from castform.eval_result import DEFAULT_PASS_AT, EvalResult
from castform.evaluate import evaluate
from castform.probes import ProbeReport
from castform.rollouts import RolloutGroup
from castform.sample_findings import judge_result
from castform.validation import Finding


async def forecast_with_model(
    environment: Environment[Any, Any],
    examples: Sequence[Example[Any]],
    *,
    endpoint: Endpoint,
    version: int | None,
    options: CertifyOptions,
    report: ProbeReport | None,
    on_group: Callable[[RolloutGroup], None],
    record: Callable[[Sequence[RolloutGroup]], None] | None,
) -> tuple[EvalResult, Mapping[str, Any] | None, list[Finding]]:
    """Sample groups; return what came out, the forecast, and findings. Raises what the endpoint raises."""
    full = None if report is None or report.unpaid_gold else report.full_score
    pass_at = DEFAULT_PASS_AT if full is None else full
    result = await evaluate(
        environment,
        examples,
        endpoint=endpoint,
        samples=options.samples,
        sampling=options.sampling,
        seed=options.seed,
        split=options.split,
        name="certify",
        weights=options.weights,
        concurrency=options.concurrency,
        enforce_sampling=True,
        max_context_tokens=options.max_context_tokens,
        version=version,
        timeout_seconds=max(options.timeout_seconds, options.max_seconds),
        pass_at=pass_at,
        on_group=on_group,
        record=record,
    )
    forecast = forecast_results(result.examples, full_score=pass_at)
    found = judge_result(result, full_score=pass_at, max_context_tokens=options.max_context_tokens)
    findings = [*found, *judge_forecast(forecast)]
    steps = {
        str(size.group_size): forecast.useful_tokens_per_step(size.group_size, options.groups_per_step)
        for size in forecast.sizes
    }
    data = {
        **forecast.as_dict(),
        "groups_per_step": options.groups_per_step,
        "useful_tokens_per_step": steps,
    }
    return result, data, [replace(finding, check="forecast") for finding in findings]
