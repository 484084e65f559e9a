"""RunConfig: everything that decides a run, from TOML and flags, with every default in one place."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, model_validator

from castform.compose.overrides import assign, assign_key
from castform.config_faults import describe_fault, find_part_faults
from castform.environment_section import MORE_KEYS, PART_KEYS, WORKER_KEYS, EnvironmentSection
from castform.errors import ConfigError
from castform.home import expand_home
from castform.section import Section as _Section

MAX_THREADS = 1024
"""More than machines have processors; far more cannot be started, and their lack ends the process."""


class ModelSection(_Section):
    id: str = ""
    """A pulled name (`smollm2-135m`), a folder with weights and tokenizer, or a hub id."""
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """auto: bfloat16 where the hardware computes in it, else float32."""
    device: str = "auto"
    """auto: cuda when there is a GPU, else cpu."""
    adapter: Path | None = None
    """PEFT LoRA folder on top of the model. Training starts from it: its rank, alpha and layers win over [lora]."""


class SamplingSection(_Section):
    temperature: float = Field(1.0, gt=0, le=10)
    """Of training rollouts. The trainer divides by it too."""
    max_new_tokens: int = Field(64, ge=1)
    """Most tokens of one reply."""
    max_context_tokens: int | None = Field(None, ge=2)
    """Prompt plus reply. Unset: the model's own."""


class RlSection(_Section):
    algorithm: Literal["grpo"] = "grpo"
    """Loss file in castform_trainer/losses."""
    group_size: int = Field(8, ge=2)
    """Rollouts per example."""
    groups_per_step: int = Field(8, ge=1)
    """Groups with signal that make one optimiser step."""
    normalize_advantage: bool = False
    """Divide advantages by the group's standard deviation (GRPO). Off: centred only (Dr. GRPO)."""
    clip_low: float = Field(0.2, gt=0, lt=1)
    clip_high: float = Field(0.28, gt=0)
    importance_cap: float = Field(2.0, gt=0)
    """Largest weight of the correction between sampler and trainer (truncated importance sampling)."""
    minibatches: int = Field(1, ge=1)
    """Optimiser steps that one batch of rollouts is cut into."""
    min_valid_rollouts: int = Field(2, ge=2)
    """A group with fewer scored rollouts has no signal."""
    max_refills: int = Field(3, ge=0)
    """How many more rounds of groups are sampled in a step to replace those without signal."""
    max_concurrent_rollouts: int = Field(128, ge=1)
    rollout_timeout_seconds: float = Field(600.0, gt=0)
    """A group that takes longer is cancelled and its rollouts counted as failed."""


class OptimizerSection(_Section):
    learning_rate: float = Field(1e-4, gt=0, le=1)
    warmup_steps: int = Field(5, ge=0)
    """Updates over which the rate rises to learning_rate."""
    decay: Literal["constant", "linear"] = "constant"
    """linear: falls from the end of the warm-up to reach 0 after the last of run.steps."""
    weight_decay: float = Field(0.0, ge=0)
    beta1: float = Field(0.9, ge=0, lt=1)
    beta2: float = Field(0.99, ge=0, lt=1)
    eps: float = Field(1e-8, gt=0)
    max_grad_norm: float = Field(1.0, gt=0)
    tokens_per_microbatch: int = Field(1024, ge=16)
    """Tree tokens of one forward pass; the gradient does not depend on it."""


class LoraSection(_Section):
    rank: int = Field(16, ge=1, le=1024)
    alpha: float = Field(32.0, gt=0)
    targets: list[str] | Literal["all-linear"] = "all-linear"
    """Module names, or every linear layer except the output head."""


class EvalSection(_Section):
    examples: int = Field(100, ge=1)
    """Held-out examples, the same before and after."""
    samples: int = Field(1, ge=1)
    """Replies per example."""
    temperature: float = Field(0.0, ge=0, le=10)
    """0 is greedy: one sample is then enough."""
    every: int = Field(0, ge=0)
    """Also evaluate every N steps. 0: only before and after."""


class EngineSection(_Section):
    name: str = "transformers"
    """transformers (in process), vllm (over HTTP), or one that a plugin registers."""
    url: str | None = None
    """Join a server that runs already instead of starting one (vllm)."""
    max_batch: int = Field(64, ge=1)
    """Replies sampled at the same time."""
    options: dict[str, Any] = Field(default_factory=dict)
    """What only this engine knows (see docs/engines.md)."""


class CheckpointSection(_Section):
    every: int = Field(10, ge=1)
    """Steps between checkpoints. One is also written at the end and at a stop."""
    keep: int = Field(2, ge=1)
    """Newest checkpoints that stay on disk."""


class RunSection(_Section):
    name: str = ""
    """Free text for listings. Unset: environment and model."""
    seed: int = Field(0, ge=0, lt=2**31)
    steps: int = Field(30, ge=1)
    deterministic: bool = False
    """Bitwise repeatable on one machine, at the price of batching."""
    max_seconds: float | None = Field(None, gt=0)
    """Stop training, with a checkpoint and a verdict, after this long."""
    threads: int | None = Field(None, ge=1, le=MAX_THREADS)
    """CPU threads of torch. Unset: torch decides."""
    watchers: list[str] = Field(default_factory=list)
    """Plugins whose run hooks are called."""


class RunConfig(_Section):
    """One training, evaluation or validation run. Frozen; stored with the run as it was."""

    run: RunSection = RunSection()
    environment: EnvironmentSection = EnvironmentSection()
    model: ModelSection = ModelSection()
    sampling: SamplingSection = SamplingSection()
    rl: RlSection = RlSection()
    optimizer: OptimizerSection = OptimizerSection()
    lora: LoraSection = LoraSection()
    eval: EvalSection = EvalSection()
    engine: EngineSection = EngineSection()
    checkpoint: CheckpointSection = CheckpointSection()

    @model_validator(mode="after")
    def _check_across_sections(self) -> RunConfig:
        if self.rl.min_valid_rollouts > self.rl.group_size:
            raise ValueError(
                f"rl.min_valid_rollouts is {self.rl.min_valid_rollouts}, "
                f"more than rl.group_size = {self.rl.group_size}"
            )
        limit = self.sampling.max_context_tokens
        if limit is not None and self.sampling.max_new_tokens >= limit:
            raise ValueError(
                f"sampling.max_new_tokens is {self.sampling.max_new_tokens}, which leaves no room for "
                f"a prompt in sampling.max_context_tokens = {limit}"
            )
        return self


def load_config(path: Path | None = None, assignments: Sequence[str] = (), **flags: Any) -> RunConfig:
    """Build a RunConfig from a TOML file, then `section.key=value` assignments, then flags.

    Flags are given with a double underscore (`run__steps=30`); None means not given. An
    `environment__id` that is a TOML file gives its other sections too when there is no `path`.
    Raises ConfigError with every fault at once.
    """
    faults: list[str] = []
    id = flags.get("environment__id")
    file = Path(id) if isinstance(id, str) and id.endswith(".toml") else None
    data = {} if path is None else read_toml(path)
    if path is None and file is not None:
        path, data = file, read_toml(expand_home(file))
        section = data.get("environment")
        if isinstance(section, dict) and section.get("id"):
            file, flags = None, {**flags, "environment__id": None}  # a run's config with an id of its own
        else:
            kept = section.items() if isinstance(section, dict) else ()
            data["environment"] = {k: v for k, v in kept if k in WORKER_KEYS}  # the file itself is the id
    if path is not None:
        anchor_model(data, expand_home(path).absolute().parent)
    for text in assignments:
        key, sep, value = text.partition("=")
        if not sep or not key.strip():
            faults.append(f"--set {text!r}: expected section.key=value")
            continue
        keys = key.strip().split(".")
        if keys[0] == "env" and len(keys) > 1:  # short for an argument of the environment
            keys = ["environment", *(() if file is not None else ("args",)), *keys[1:]]
        if file is not None and keys[0] == "environment" and set(keys[1:2]) & {*PART_KEYS, *MORE_KEYS}:
            keys = ["environment", "args", ".".join(keys[1:])]  # of the file's own [environment]
        assign_value(data, keys, parse_value(value), faults)
    for flag, value in flags.items():
        if value is not None:
            assign_value(data, flag.split("__"), value, faults)
    anchor_model(data, Path.cwd())
    return _make_config(data, faults, path)


def anchor_model(data: dict[str, Any], folder: Path) -> None:
    """Make the model's adapter, and its id where that is a folder, start at `folder`, in place.

    A run keeps them so, and can be resumed from anywhere. What is absolute stays.
    """
    section = data.get("model")
    if not isinstance(section, dict):
        return
    adapter, id = section.get("adapter"), section.get("id")
    if isinstance(adapter, (str, Path)):
        section["adapter"] = folder / expand_home(Path(adapter))
    if isinstance(id, str) and id and os.path.isdir(found := folder / Path(os.path.expanduser(id))):  # noqa: PTH112, PTH111  # any text
        section["id"] = str(found)


def read_environment_file(path: Path, args: Mapping[str, Any]) -> EnvironmentSection:
    """Return the `[environment]` of a TOML file, with `args` in place of its keys.

    Dots in an argument lead further in. Where the section has an id, they are arguments of that
    environment. Raises ConfigError with every fault of the file, the other sections included.
    """
    data = read_toml(path)
    faults: list[str] = []
    section = data.setdefault("environment", {})
    if not section or not isinstance(section, dict):
        raise ConfigError(
            f"{path} has no [environment]",
            hint="docs/composing.md shows what stands there: dataset, rewards, …",
        )
    _replace(section, args, faults)
    return _make_config(data, faults, path).environment


def replace_keys(section: EnvironmentSection, args: Mapping[str, Any]) -> EnvironmentSection:
    """Return a section with `args` in place of its keys, or as more arguments of its id's environment."""
    if not args:
        return section
    if not section.is_composed:
        return section.model_copy(update={"args": {**section.args, **args}})
    data = section.model_dump(exclude_defaults=True)
    faults: list[str] = []
    _replace(data, args, faults)
    return _make_config({"environment": data}, faults, None).environment


def _replace(section: dict[str, Any], args: Mapping[str, Any], faults: list[str]) -> None:
    for name, value in args.items():
        try:
            if section.get("id"):
                assign(section, ["args", name], value)
            else:
                assign_key(section, name.split("."), value)
        except ValueError as error:
            faults.append(f"environment.{name}: {error}")


def _make_config(data: dict[str, Any], faults: list[str], path: Path | None) -> RunConfig:
    """Validate. A composed environment's paths start at the file, unless it says otherwise."""
    section = data.get("environment")
    if path is not None and isinstance(section, dict) and any(section.get(key) for key in PART_KEYS):
        section.setdefault("base_dir", str(expand_home(path).absolute().parent))
    try:
        config = RunConfig.model_validate(data)
    except ValidationError as error:
        found = [*error.errors()]
        faults += [describe_fault(item, data, RunConfig) for item in found]
        faults += find_part_faults(data, [item["loc"] for item in found], path)
    if faults:
        where = f" in {path}" if path else ""
        head = f"{len(faults)} wrong setting{'s' if len(faults) > 1 else ''}{where}:"
        raise ConfigError(
            "\n".join([head, *(f"  {f}" for f in faults)]),
            hint="`castform train --settings` lists all settings",
        )
    return config


def list_settings(root: type[_Section] = RunConfig) -> list[dict[str, str]]:
    """Return name, default and summary of every setting, in the order of the config."""
    return [
        {
            "name": f"{section}.{key}",
            "default": ""
            if (value := field.get_default(call_default_factory=True)) in (None, ())
            else f"{value}",
            "summary": (field.description or "").replace("\n", " "),
        }
        for section, holder in root.model_fields.items()
        for key, field in type(holder.default).model_fields.items()
    ]


def parse_value(text: str) -> Any:
    """Read a command-line value as TOML; what is not TOML is the string itself."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text


def read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read the config {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text: {error}") from error
    except (ValueError, RecursionError) as error:  # of a number of 5000 digits, of 500 brackets
        raise ConfigError(f"{path} is not valid TOML: {error}") from error


def assign_value(data: dict[str, Any], keys: Sequence[str], value: Any, faults: list[str]) -> None:
    """Put a value where the keys lead; those of `environment` lead into its parts too."""
    section = data.get("environment")
    try:
        if keys[0] == "environment" and len(keys) > 1 and isinstance(section, dict):
            assign_key(section, keys[1:], value)
        else:
            assign(data, keys, value)
    except ValueError as error:
        faults.append(f"{'.'.join(keys)}: {error}")
