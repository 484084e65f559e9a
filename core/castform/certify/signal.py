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
from castform.eval_result import EvalResult
from castform.probes import ProbeReport
from castform.rollouts import RolloutGroup
from castform.sampled import sample_examples
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
    sampled = await sample_examples(
        environment,
        examples,
        endpoint=endpoint,
        version=version,
        options=options,
        probes=report,
        name="certify",
        timeout_seconds=max(options.timeout_seconds, options.max_seconds),
        on_group=on_group,
        record=record,
    )
    forecast = forecast_results(sampled.result.examples, full_score=sampled.pass_at)
    findings = [*sampled.findings, *judge_forecast(forecast)]
    steps = {
        str(size.group_size): forecast.useful_tokens_per_step(size.group_size, options.groups_per_step)
        for size in forecast.sizes
    }
    data = {
        **forecast.as_dict(),
        "groups_per_step": options.groups_per_step,
        "useful_tokens_per_step": steps,
    }
    return sampled.result, data, [replace(finding, check="forecast") for finding in findings]
