"""SftTrainingConfig: what a program may choose of a finetuning run, with its bounds and defaults."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

DEFAULT_WIDTH = 4
WIDTHS: Mapping[str, int] = {
    "Qwen/Qwen3.5-4B": 4,
    "Qwen/Qwen3.5-35B-A3B": 8,
    "google/gemma-4-26B-A4B-it": 8,
}
"""Rows that the hosted platform computes side by side, by model: a batch there is a multiple of it."""

SHORT_CONTEXT = (256, 8192)
LONG_CONTEXTS = (32768, 65536, 131072)
LORA_RANKS = (32, 64)
MAX_BATCH = 64

INTEGERS: Mapping[str, tuple[int, int]] = {
    "num_epochs": (1, 100),
    "save_interval": (1, 10_000),
    "seed": (0, 2**31 - 1),
    "eval_interval": (1, 10_000),
}
RANGES: Mapping[str, tuple[float, float]] = {"warmup_ratio": (0, 0.5), "adam_beta2": (0.9, 0.999)}
ABOVE_ZERO: Mapping[str, float] = {"learning_rate": 0.1, "grad_clip": 10}


@dataclass(frozen=True, kw_only=True, slots=True)
class SftTrainingConfig:
    """Settings of one run. ValueError names every one that is out of bounds, true and false for a number too.

    What is None is left out of the request, and the trainer's own value holds.
    """

    num_epochs: int = 1
    """1 to 100."""
    learning_rate: float = 1e-5
    """Above 0, at most 0.1."""
    max_context_tokens: int = 8192
    """256 to 8192, or 32768, 65536, 131072. A longer row fails the run before it trains."""
    save_interval: int = 20
    """Steps between checkpoints, 1 to 10000."""
    seed: int = 42
    model: str | None = None
    """Pulled name, folder or hub id. None: CASTFORM_MODEL, or else the model that was pulled last."""
    lr_decay_style: Literal["constant", "cosine"] | None = None
    min_lr: float | None = None
    """At least 0 and below learning_rate."""
    warmup_ratio: float | None = None
    """Share of all steps, 0 to 0.5."""
    adam_beta2: float | None = None
    """0.9 to 0.999."""
    grad_clip: float | None = None
    """Above 0, at most 10."""
    lora_rank: int | None = None
    """32 or 64; alpha is twice the rank."""
    global_batch_size: int | None = None
    """Rows a step. Up to 8192 tokens, for no model or one of the hosted platform, a multiple of its width, at
    most 64; else 1 to 64. None: the width."""
    eval_interval: int | None = None
    """Steps between measurements of the held-out loss, 1 to 10000. None: save_interval."""

    def __post_init__(self) -> None:
        faults = [*self._find_faults()]
        if faults:
            raise ValueError("; ".join(faults))

    @property
    def width(self) -> int:
        """What global_batch_size has to be a multiple of."""
        if not _is_integer(self.max_context_tokens) or self.max_context_tokens > SHORT_CONTEXT[1]:
            return 1
        return DEFAULT_WIDTH if self.model is None else WIDTHS.get(self.model, 1)

    def to_args(self) -> dict[str, Any]:
        """Return the `args` of a launch: what is set, without the model, which is no argument."""
        values = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "model"}
        return {name: _plain(value) for name, value in values.items() if value is not None}

    def _find_faults(self) -> Iterator[str]:
        optional = {field.name for field in fields(self) if field.default is None}
        for name, (low, high) in INTEGERS.items():
            value = getattr(self, name)
            if name not in optional or value is not None:
                yield from _check_integer(name, value, low, high)
        yield from self._check_context()
        for name, most in ABOVE_ZERO.items():
            value = getattr(self, name)
            if name not in optional or value is not None:
                yield from _check_number(name, value, 0, most, above=True)
        for name, (least, most) in RANGES.items():
            value = getattr(self, name)
            if value is not None:
                yield from _check_number(name, value, least, most)
        yield from self._check_min_lr()
        yield from self._check_choices()
        yield from self._check_batch()

    def _check_context(self) -> Iterator[str]:
        value, (low, high) = self.max_context_tokens, SHORT_CONTEXT
        if not _is_integer(value):
            yield "max_context_tokens must be an integer"
        elif not low <= value <= high and value not in LONG_CONTEXTS:
            longer = ", ".join(map(str, LONG_CONTEXTS))
            yield f"max_context_tokens must be between {low} and {high}, or one of {longer}"

    def _check_min_lr(self) -> Iterator[str]:
        if self.min_lr is None:
            return
        wrong = [*_check_number("min_lr", self.min_lr, 0, math.inf)]
        yield from wrong
        if not wrong and _is_number(self.learning_rate) and self.min_lr >= self.learning_rate:
            yield f"min_lr must be below learning_rate, which is {self.learning_rate:g}"

    def _check_choices(self) -> Iterator[str]:
        if self.model is not None and (
            not isinstance(self.model, str) or not self.model.strip() or not self.model.isprintable()
        ):
            yield "model must be a name: a pulled model, a folder or a hub id"
        if self.lr_decay_style not in (None, "constant", "cosine"):
            yield 'lr_decay_style must be "constant" or "cosine"'
        if self.lora_rank is not None and not (_is_integer(self.lora_rank) and self.lora_rank in LORA_RANKS):
            yield "lora_rank must be 32 or 64"

    def _check_batch(self) -> Iterator[str]:
        value = self.global_batch_size
        if value is None or not (self.model is None or isinstance(self.model, str)):
            return
        wrong = [*_check_integer("global_batch_size", value, self.width, MAX_BATCH)]
        yield from wrong
        if not wrong and value % self.width:
            yield f"global_batch_size must be a multiple of {self.width}"


def _plain(value: str | float) -> str | float:
    """Return a value without what a subclass adds: numbers of numpy among others are written in their own way."""
    return next(kind(value) for kind in (int, float, str) if isinstance(value, kind))


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _check_integer(name: str, value: object, low: int, high: int) -> Iterator[str]:
    if not isinstance(value, int) or isinstance(value, bool):
        yield f"{name} must be an integer"
    elif not low <= value <= high:
        yield f"{name} must be between {low} and {high}"


def _check_number(name: str, value: object, low: float, high: float, *, above: bool = False) -> Iterator[str]:
    if not isinstance(value, int | float) or isinstance(value, bool):
        yield f"{name} must be a number"
    elif not math.isfinite(value) or not low <= value <= high or (above and value == low):
        if above:
            yield f"{name} must be above {low:g} and at most {high:g}"
        else:
            yield f"{name} must be " + (f"between {low:g} and {high:g}" if high < math.inf else "at least 0")
