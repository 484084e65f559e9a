"""SftConfig: everything that decides a finetuning run, from TOML and flags, with every default in one place."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, model_validator

from castform.config import (
    MAX_THREADS,
    CheckpointSection,
    LoraSection,
    ModelSection,
    anchor_model,
    assign_value,
    parse_value,
    read_toml,
)
from castform.config_faults import describe_fault
from castform.errors import ConfigError
from castform.home import expand_home
from castform.section import Section

LORA_RATE = 5e-4
FULL_RATE = 5e-5
"""The rule of "LoRA Without Regret" at width 2000, where the model's family makes no difference."""


class DataSection(Section):
    train: Path | None = None
    """benchmax-sft-v1 file to train on. A relative path starts at the TOML file that names it."""
    eval: Path | None = None
    """benchmax-sft-v1 file with held-out rows, at most 2048."""
    max_context_tokens: int | None = Field(None, ge=2)
    """A longer row is an error before anything starts. Unset: the model's own limit."""
    use_sampled_ids: bool = True
    """Train rows that were made from our own runs on the token ids in FILE.tokens.jsonl, as they were sampled."""


class SftRunSection(Section):
    name: str = ""
    """Free text for listings. Unset: data and model."""
    method: Literal["lora", "full"] = "lora"
    """full trains all weights, in float32; the result is a model folder instead of an adapter."""
    seed: int = Field(0, ge=0, lt=2**31)
    epochs: int = Field(1, ge=1)
    """How often each row is trained on."""
    steps: int | None = Field(None, ge=1)
    """Optimiser steps, in place of epochs."""
    deterministic: bool = False
    """Only deterministic kernels: bitwise repeatable on a GPU too. On a CPU runs are so anyhow."""
    max_seconds: float | None = Field(None, gt=0)
    """Stop training, with a checkpoint and a verdict, after this long."""
    threads: int | None = Field(None, ge=1, le=MAX_THREADS)
    """CPU threads of torch. Unset: torch decides."""
    watchers: list[str] = Field(default_factory=list)
    """Plugins whose run hooks are called."""


class SftOptimizerSection(Section):
    learning_rate: float | None = Field(None, gt=0, le=1)
    """Unset: 5e-4 for LoRA, 5e-5 for all weights."""
    decay: Literal["cosine", "constant"] = "cosine"
    """cosine: falls from the end of the warm-up to min_learning_rate after the last step."""
    min_learning_rate: float = Field(0.0, ge=0)
    warmup_ratio: float = Field(0.05, ge=0, le=0.5)
    """Share of the steps over which the rate rises to learning_rate."""
    weight_decay: float = Field(0.0, ge=0)
    beta1: float = Field(0.9, ge=0, lt=1)
    beta2: float = Field(0.99, ge=0, lt=1)
    eps: float = Field(1e-8, gt=0)
    max_grad_norm: float = Field(1.0, gt=0)


class BatchSection(Section):
    rows: int = Field(16, ge=1)
    """Rows of one optimiser step. The rows of an epoch are spread evenly over its steps."""
    packing: bool = True
    """Several rows in one forward pass, no row seeing another. Off: each row by itself."""
    tokens_per_microbatch: int = Field(512, ge=16)
    """Packed tokens of one forward pass; the gradient does not depend on it."""


class SftEvalSection(Section):
    every: int = Field(0, ge=0)
    """Also measure the held-out loss every N steps. 0: only before and after."""
    answers: int = Field(64, ge=0)
    """Held-out rows, a sample where there are more, that the model answers before and after. 0: none."""


class SftCheckpointSection(CheckpointSection):
    every: int = Field(20, ge=1)
    """Steps between checkpoints. One is also written at the end and at a stop."""


class SftConfig(Section):
    """One finetuning run. Frozen; stored with the run as it was."""

    run: SftRunSection = SftRunSection()
    data: DataSection = DataSection()
    model: ModelSection = ModelSection()
    batch: BatchSection = BatchSection()
    optimizer: SftOptimizerSection = SftOptimizerSection()
    lora: LoraSection = LoraSection()
    eval: SftEvalSection = SftEvalSection()
    checkpoint: SftCheckpointSection = SftCheckpointSection()

    @property
    def learning_rate(self) -> float:
        """The rate in force at the end of the warm-up."""
        return self.optimizer.learning_rate or (LORA_RATE if self.run.method == "lora" else FULL_RATE)

    @model_validator(mode="after")
    def _check_across_sections(self) -> SftConfig:
        if self.optimizer.min_learning_rate >= self.learning_rate:
            raise ValueError(
                f"optimizer.min_learning_rate is {self.optimizer.min_learning_rate:g}, "
                f"not less than the learning rate of {self.learning_rate:g}"
            )
        if self.eval.every and self.data.eval is None:
            raise ValueError(f"eval.every is {self.eval.every}, but there is no data.eval to measure on")
        if self.run.method == "full" and self.model.adapter is not None:
            raise ValueError('run.method = "full" trains the model itself and cannot start from an adapter')
        return self


def load_sft_config(path: Path | None = None, assignments: Sequence[str] = (), **flags: Any) -> SftConfig:
    """Build an SftConfig from a TOML file, then `section.key=value` assignments, then flags.

    Flags are given with a double underscore (`run__epochs=3`); None means not given. Data files
    become absolute paths, so that a run can be resumed from anywhere. Raises ConfigError with
    every fault at once.
    """
    faults: list[str] = []
    data: dict[str, Any] = {}
    if path is not None:
        data = read_toml(expand_home(path))
        _anchor(data, expand_home(path).absolute().parent)
    for text in assignments:
        key, sep, value = text.partition("=")
        if not sep or not key.strip():
            faults.append(f"--set {text!r}: expected section.key=value")
            continue
        assign_value(data, key.strip().split("."), parse_value(value), faults)
    for flag, value in flags.items():
        if value is not None:
            assign_value(data, flag.split("__"), value, faults)
    _anchor(data, Path.cwd())
    try:
        config = SftConfig.model_validate(data)
    except ValidationError as error:
        faults += [describe_fault(item, data, SftConfig) for item in error.errors()]
    if faults:
        where = f" in {path}" if path else ""
        head = f"{len(faults)} wrong setting{'s' if len(faults) > 1 else ''}{where}:"
        raise ConfigError(
            "\n".join([head, *(f"  {fault}" for fault in faults)]),
            hint="`castform sft train --settings` lists all settings",
        )
    return config


def _anchor(data: dict[str, Any], folder: Path) -> None:
    """Make the paths of the config start at `folder`, in place; what is absolute stays."""
    anchor_model(data, folder)
    values = data.get("data")
    if not isinstance(values, dict):
        return
    for key in ("train", "eval"):
        if isinstance(values.get(key), (str, Path)):
            values[key] = folder / expand_home(Path(values[key]))
