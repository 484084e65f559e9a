"""How long a rollout was, from its recorded calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from castform.calls import ModelCall


@dataclass(frozen=True, kw_only=True, slots=True)
class RolloutLengths:
    """Token counts are None when the endpoint did not give them."""

    turns: int
    """Requests to the model."""
    prompt_tokens: int | None
    """Of the longest prompt."""
    completion_tokens: int | None
    """Of all replies together."""
    context_tokens: int | None
    """Longest prompt with its reply."""


def measure_lengths(calls: Sequence[ModelCall]) -> RolloutLengths:
    """Add up a rollout's calls. One call without counts makes the sums unknown."""
    prompts: list[int] = []
    completions: list[int] = []
    for call in calls:
        prompt = call.prompt_tokens if call.prompt_ids is None else len(call.prompt_ids)
        completion = call.completion_tokens if call.sampled_ids is None else len(call.sampled_ids)
        if prompt is not None:
            prompts.append(prompt)
        if completion is not None:
            completions.append(completion)
    known = bool(calls) and len(prompts) == len(completions) == len(calls)
    return RolloutLengths(
        turns=len({call.index for call in calls}),
        prompt_tokens=max(prompts) if known else None,
        completion_tokens=sum(completions) if known else None,
        context_tokens=max(p + c for p, c in zip(prompts, completions, strict=True)) if known else None,
    )
