"""Why rollouts end, and which of the reasons still leave something to score."""

from __future__ import annotations

from typing import Final

FINISHED: Final = "finished"

BUDGET_STOPS: Final = frozenset(
    {"context_exceeded", "output_exceeded", "max_turns_exceeded", "tool_budget_exceeded"}
)
"""The model ran out of room. What it did until then can be scored."""

SCORABLE: Final = frozenset({FINISHED}) | BUDGET_STOPS

KNOWN_REASONS: Final = SCORABLE | {
    "harness_timeout",
    "harness_error",
    "sandbox_error",
    "verifier_timeout",
    "verifier_error",
    "model_error",
    "tool_error",
    "judge_error",
    "reward_error",
    "group_reward_error",
    "worker_lost",
    "unknown",
}
"""The shared vocabulary. It is open: a server's own finish reason passes through as it is."""


def settle_termination_reason(attempt_reason: str, failure_reason: str) -> str:
    """Return an attempt's reason after its scoring failed for another.

    The failure's reason replaces only "finished": a rollout that ran into a budget keeps saying so.
    """
    return failure_reason if attempt_reason == FINISHED else attempt_reason


def describe_error(error: BaseException) -> str:
    """Return `Type: message`, the form in which a foreign exception is kept with an outcome."""
    try:
        text = str(error)
    except Exception as unreadable:  # noqa: BLE001 - the author's own __str__, which may not cost the whole run
        text = f"its text cannot be read ({type(unreadable).__name__})"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
