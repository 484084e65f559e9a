"""Agent options that take from the trainer what is the trainer's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from benchmax.envs.shared_types import ValidationDiagnostic

OUTPUT_CAPS: Final = frozenset({"max_tokens", "max_completion_tokens", "max_output_tokens"})
TRAINER_OWNED: Final = frozenset(
    {"temperature", "top_p", "top_k", "presence_penalty", "frequency_penalty", "seed", "stop"}
)
UNSUPPORTED: Final = frozenset(
    {
        "logprobs",
        "top_logprobs",
        "logit_bias",
        "best_of",
        "functions",
        "function_call",
        "min_p",
        "reasoning_effort",
        "repetition_penalty",
        "guided_json",
        "guided_regex",
        "guided_choice",
        "guided_grammar",
        "prompt_logprobs",
    }
)
"""Whatever their value: the recorded log-probabilities would no longer be the policy's."""


def find_model_controls(kwargs: Mapping[str, object], location: str) -> list[ValidationDiagnostic]:
    """Return what an agent's options say about sampling, mappings and lists within them included."""
    return [
        found
        for place, key, value in _walk(kwargs, location)
        if (found := _diagnose(key, value, place)) is not None
    ]


def _walk(value: object, place: str, *, depth: int = 0) -> Iterator[tuple[str, str, object]]:
    if depth > 50:
        return
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield f"{place}.{key}", str(key), inner
            yield from _walk(inner, f"{place}.{key}", depth=depth + 1)
    elif isinstance(value, (list, tuple)):
        for index, inner in enumerate(value):
            yield from _walk(inner, f"{place}[{index}]", depth=depth + 1)


def _diagnose(key: str, value: object, place: str) -> ValidationDiagnostic | None:
    if value is None:
        return None
    if key in OUTPUT_CAPS:
        return ValidationDiagnostic(
            "warning",
            "harness_output_cap",
            f"{key} caps a reply in the agent, beside the run's own limit: replies may end early",
            place,
        )
    if key in TRAINER_OWNED:
        return ValidationDiagnostic(
            "error", "trainer_owned_model_control", f"{key} belongs to the run's sampling; take it out", place
        )
    if key in UNSUPPORTED or _is_unsupported_value(key, value):
        return ValidationDiagnostic(
            "error",
            "unsupported_model_control",
            f"{key} changes what is sampled in a way that cannot be trained on; take it out",
            place,
        )
    return None


def _is_unsupported_value(key: str, value: object) -> bool:
    if key == "n":
        return isinstance(value, (int, float)) and value != 1
    if key == "tool_choice":
        return value not in ("auto", "none")
    if key == "parallel_tool_calls":
        return value is False
    if key == "response_format":
        return (value.get("type") if isinstance(value, Mapping) else value) != "text"
    return False
