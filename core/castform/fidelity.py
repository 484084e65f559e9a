"""How faithfully a rollout's calls were recorded: what its prompts were made of, counted.

A spliced call goes on with the very tokens that were sampled before; a forked one could not,
because the client or the chat template had rewritten the history. What was sampled is never
encoded again, either way.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Self

from castform.calls import ModelCall


@dataclass(frozen=True, kw_only=True, slots=True)
class CallFidelity:
    """Counts over calls (one a reply) and tokens. They add up with `+`."""

    first_calls: int = 0
    """Calls that continued nothing."""
    spliced_calls: int = 0
    forked_calls: int = 0
    first_tokens: int = 0
    """Prompt tokens of the calls that continued nothing."""
    spliced_tokens: int = 0
    forked_tokens: int = 0
    sampled_tokens: int = 0
    aborted_calls: int = 0
    """Their client went away or their session ended; they are masked."""
    aborted_tokens: int = 0
    """Sampled tokens of the aborted calls."""
    failed_calls: int = 0
    """The engine gave no reply; the rollout is not scored."""

    def __add__(self, other: Self) -> Self:
        return type(self)(**{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)})

    def describe(self) -> str:
        """Return one line for people."""
        parts = [f"{self.first_calls} first", f"{self.spliced_calls} spliced", f"{self.forked_calls} forked"]
        if self.aborted_calls:
            parts.append(f"{self.aborted_calls} aborted ({self.aborted_tokens} tokens)")
        if self.failed_calls:
            parts.append(f"{self.failed_calls} failed")
        tokens = f"{self.first_tokens} + {self.spliced_tokens} + {self.forked_tokens}"
        return f"calls {', '.join(parts)}; prompt tokens {tokens}, sampled {self.sampled_tokens}"


def count_calls(calls: Iterable[ModelCall]) -> CallFidelity | None:
    """Return the counts of one rollout; None where no call has token data, as behind a remote server."""
    total = CallFidelity()
    known = False
    for call in calls:
        known = known or call.prompt_ids is not None
        prompt, sampled = len(call.prompt_ids or ()), len(call.sampled_ids or ())
        aborted, failed = call.finish_reason == "abort", call.error is not None
        total += CallFidelity(
            **{f"{call.splice}_calls": 1, f"{call.splice}_tokens": prompt},
            sampled_tokens=sampled,
            aborted_calls=int(aborted),
            aborted_tokens=sampled if aborted else 0,
            failed_calls=int(failed),
        )
    return total if known else None


def sum_fidelity(parts: Sequence[CallFidelity | None]) -> CallFidelity | None:
    """Return the sum of those that are known; None when none is."""
    known = [part for part in parts if part is not None]
    return sum(known, CallFidelity()) if known else None
