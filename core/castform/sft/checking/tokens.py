"""What a model's tokenizer and chat template make of a dataset, as values. The trainer fills them in.

castform_trainer.sft.report measures; here is no torch, so the command line and others can read it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Distribution:
    """Of whole numbers, one a row. Quantiles are values that occur (nearest rank)."""

    min: int
    median: int
    p95: int
    max: int

    @classmethod
    def of(cls, values: Sequence[int]) -> Distribution | None:
        """Return the distribution of values in any order; None of none."""
        if not values:
            return None
        ordered = sorted(values)

        def quantile(percent: int) -> int:
            return ordered[max(0, math.ceil(percent * len(ordered) / 100) - 1)]

        return cls(min=ordered[0], median=quantile(50), p95=quantile(95), max=ordered[-1])


@dataclass(frozen=True, kw_only=True, slots=True)
class RowTokens:
    """A row that is longer than the context."""

    row: int
    line: int | None
    tokens: int
    """Of its longest sample."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RowFault:
    """A row that cannot be masked."""

    row: int
    line: int | None
    message: str


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenFigures:
    """Of one file, with one model. Rows that cannot be masked are in no figure."""

    rows: int
    """Rows that were measured."""
    samples: int
    """More than rows where the template strips thinking from the history."""
    tokens: Distribution | None
    """Tokens of the longest sample of each row: what has to fit into the context."""
    trained: Distribution | None
    """Trained tokens of each row."""
    total_tokens: int
    """Of all samples together: what one epoch reads."""
    trained_tokens: int
    sampled_rows: int | None
    """Rows with token ids from a run, which are used as they are; None without such ids."""
    over_context: Sequence[RowTokens]
    cannot_mask: Sequence[RowFault]

    @property
    def trained_share(self) -> float | None:
        """Share of the tokens that are trained."""
        return self.trained_tokens / self.total_tokens if self.total_tokens else None

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return {**asdict(self), "trained_share": self.trained_share}


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """Neighbouring tokens of a sample that are all trained, or all not."""

    text: str
    trained: bool
    tokens: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Preview:
    """One row as the model reads it."""

    row: int
    line: int | None
    samples: Sequence[Sequence[Span]]
    """Empty when the row cannot be masked."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """One reason why training would not start."""

    code: str
    message: str
    hint: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelReport:
    """What the checks before a run find with a model."""

    model: str
    """Its folder."""
    context_tokens: int
    """Most tokens of a row."""
    figures: Mapping[str, TokenFigures]
    """By split, `train` and `eval`; those that could be read."""
    faults: Sequence[Fault]
    """Everything for which `castform sft train` would refuse these files with this model."""
    preview: Preview | None
