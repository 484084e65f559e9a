"""How to tell whether two answers are the same: by their letters, or by a judge's reading."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

from benchmax.rewards.judge import Judge

DEFAULT_DIVERSITY_INSTRUCTIONS = (
    "Two answers belong together when they reach the same result by the same approach. "
    "Wording, length and formatting do not matter."
)


@dataclass(frozen=True)
class NgramDiversityConfig:
    """Character n-grams: free, exact to repeat, blind to a paraphrase."""

    n: int = 3
    similarity_threshold: float = 0.5
    """The share of common n-grams (Jaccard) from which two texts count as the same; in [0, 1]."""

    def __post_init__(self) -> None:
        _check_positive_integer("n", self.n)
        threshold = self.similarity_threshold
        if isinstance(threshold, bool) or not isinstance(threshold, (int, float)):
            raise TypeError(f"similarity_threshold must be a number, not {threshold!r}")
        if not 0 <= threshold <= 1:
            raise ValueError(f"similarity_threshold must be in [0, 1], not {threshold}")


@dataclass(frozen=True)
class LLMDiversityConfig:
    """A judge sorts the texts in one call: it sees through paraphrase, and costs a request a group."""

    judge: Judge
    instructions: str = DEFAULT_DIVERSITY_INSTRUCTIONS
    """When two answers belong together."""
    max_tokens: int = 512
    temperature: float = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.instructions, str) or not self.instructions.strip():
            raise ValueError("instructions must be a non-empty string")
        _check_positive_integer("max_tokens", self.max_tokens)
        if not math.isfinite(self.temperature) or self.temperature < 0:
            raise ValueError(f"temperature must be a number of at least 0, not {self.temperature}")


DiversityConfig: TypeAlias = NgramDiversityConfig | LLMDiversityConfig


def _check_positive_integer(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an integer, not {value!r}")
    if value < 1:
        raise ValueError(f"{name} must be at least 1, not {value}")
