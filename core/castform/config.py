"""RunConfig: everything that decides a run, from TOML and flags, with every default in one place."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import Field, ValidationError, ValidationInfo, field_validator, model_validator

from castform.compose.settings import (
    DatasetPart,
    JudgePart,
    PromptMessage,
    RewardPart,
    RubricPart,
    ToolPart,
    write_out_dataset,
    write_out_parts,
    write_out_prompt,
    write_out_rubrics,
)
from castform.errors import ConfigError
from castform.section import Section as _Section


class EnvironmentSection(_Section):
    """An environment by its id, or parts that make one (docs/composing.md)."""

    id: str = ""
    """Plugin id (`arith/add`), or a path to a Python file with one Environment class in it, or to a TOML."""
    args: dict[str, Any] = Field(default_factory=dict)
    """Arguments of the environment's factory; of a TOML, keys of its [environment] to replace."""
    weights: dict[str, float] = Field(default_factory=dict)
    """Weight of a reward component in the score; a component that is not named weighs 1, or as its part says."""
    base_dir: Path = Path()
    """Folder that relative dataset paths of the environment start from."""
    summary: str = ""
    """One line about a composed environment."""
    dataset: DatasetPart | None = None
    """Registered dataset (`arith/add`), JSONL file, or rows. With it the environment is composed of parts."""
    eval_dataset: DatasetPart | None = None
    """Held-out examples. Unset: the dataset's own eval split, or rows that are held out."""
    held_out: float | None = Field(None, gt=0, lt=1)
    """Share of the rows that only evaluation sees. Unset: 0.2 of a file's; a registered dataset has two splits."""
    prompt: tuple[PromptMessage, ...] = ()
    """Messages with {field}s of the row in them: a text, a table with system and user, or a list of messages."""
    gold: str = ""
    """Field of the row with the right answer. Unset: ground_truth, else answer."""
    tools: tuple[ToolPart, ...] = ()
    """Ids of tools, or tables with id, args and name."""
    rewards: tuple[RewardPart, ...] = ()
    """Ids of rewards with their weights, or tables with id, weight, args, fields and name."""
    rubrics: tuple[RubricPart, ...] = ()
    """Ids or texts of rubrics with their weights, or tables with id or text, weight, title, polarity and name."""
    judge: JudgePart | None = None
    """Model that scores by the rubrics."""
    max_turns: int | None = Field(None, ge=1)
    """Most model calls of a composed environment's rollout. Unset: 1, with tools 8."""
    max_tool_calls: int | None = Field(None, ge=0)
    """Most tool calls of its rollout. Unset: no limit."""
    parallel_tool_calls: bool = False
    """Run the tool calls of one turn side by side."""
    rollout_timeout_seconds: float | None = Field(None, gt=0)
    """Most seconds of its rollout, tools and scoring included. Unset: rl.rollout_timeout_seconds alone."""
    tool_timeout_seconds: float | None = Field(60.0, gt=0)
    """Most seconds of one tool call; then the model is told so."""
    reward_timeout_seconds: float | None = Field(60.0, gt=0)
    """Most seconds of one reward; then the rollout is not scored, or goes without the metric."""

    @property
    def is_composed(self) -> bool:
        """Whether it is made of parts."""
        return not self.id and any(getattr(self, name) for name in PART_KEYS)

    @field_validator("weights", mode="before")
    @classmethod
    def _refuse_bool_weights(cls, value: Any) -> Any:
        wrong = [name for name, w in value.items() if isinstance(w, bool)] if isinstance(value, dict) else []
        if wrong:
            raise ValueError(f"the weight of {wrong[0]!r} must be a number")
        return value

    @field_validator("dataset", "eval_dataset", mode="before")
    @classmethod
    def _write_out_dataset(cls, value: Any, info: ValidationInfo) -> Any:
        return write_out_dataset(value, str(info.field_name))

    @field_validator("tools", "rewards", "rubrics", mode="before")
    @classmethod
    def _write_out_parts(cls, value: Any, info: ValidationInfo) -> Any:
        name = str(info.field_name)
        written = (info.context or {}).get("written", {})
        return written[name] if name in written else PART_LISTS[name](value, name)

    @field_validator("prompt", mode="before")
    @classmethod
    def _write_out_prompt(cls, value: Any) -> Any:
        return write_out_prompt(value)

    @model_validator(mode="after")
    def _check_id_or_parts(self) -> EnvironmentSection:
        parts = [name for name in PART_KEYS if getattr(self, name)]
        if self.id and parts:
            raise ValueError(
                f"environment has the id {self.id!r} and {' and '.join(parts)}: give an id, or parts"
            )
        if parts and self.args:
            raise ValueError("environment.args are for an id; a part has args of its own")
        return self


PART_LISTS: dict[str, Callable[[Any, str], Any]] = {
    "tools": write_out_parts,
    "rewards": write_out_parts,
    "rubrics": write_out_rubrics,
}
"""Keys that hold several parts, and what writes their short forms out."""
PART_KEYS = ("dataset", "eval_dataset", "prompt", "tools", "rewards", "rubrics", "judge")
"""What makes an `[environment]` a composed one."""


class ModelSection(_Section):
    id: str = ""
    """A pulled name (`smollm2-135m`), a folder with weights and tokenizer, or a hub id."""
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """auto: bfloat16 where the hardware computes in it, else float32."""
    device: str = "auto"
    """auto: cuda when there is a GPU, else cpu."""


class SamplingSection(_Section):
    temperature: float = Field(1.0, gt=0, le=10)
    """Of training rollouts. The trainer divides by it too."""
    max_new_tokens: int = Field(64, ge=1)
    """Most tokens of one reply."""
    max_context_tokens: int | None = Field(None, ge=2)
    """Prompt plus reply. Unset: the model's own."""


class RlSection(_Section):
    algorithm: Literal["grpo"] = "grpo"
    """Loss file in castform_trainer/rl/losses."""
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
    threads: int | None = Field(None, ge=1)
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
    id = flags.get("environment__id")
    faults: list[str] = []
    data: dict[str, Any] = {}
    if path is not None:
        data = _read_toml(path)
    elif isinstance(id, str) and id.endswith(".toml"):
        path, data = Path(id), _read_toml(Path(id).expanduser())
        section = data.get("environment")
        if isinstance(section, dict) and section.get("id"):
            flags = {**flags, "environment__id": None}  # a run's config: the file names its environment
        else:
            data["environment"] = {}  # the file itself is the environment's id
    for text in assignments:
        key, sep, value = text.partition("=")
        if not sep or not key.strip():
            faults.append(f"--set {text!r}: expected section.key=value")
            continue
        _assign(data, key.strip().split("."), parse_value(value), faults)
    for flag, value in flags.items():
        if value is not None:
            _assign(data, flag.split("__"), value, faults)
    return _make_config(data, faults, path)


def read_environment_file(path: Path, args: Mapping[str, Any]) -> EnvironmentSection:
    """Return the `[environment]` of a TOML file, with `args` in place of its keys.

    Dots in an argument lead further in. Where the section has an id, they are arguments of that
    environment. Raises ConfigError with every fault of the file, the other sections included.
    """
    data = _read_toml(path)
    faults: list[str] = []
    section = data.setdefault("environment", {})
    if not section or not isinstance(section, dict):
        raise ConfigError(
            f"{path} has no [environment]",
            hint="docs/composing.md shows what stands there: dataset, rewards, …",
        )
    for name, value in args.items():
        keys = ["args", name] if section.get("id") else name.split(".")
        _assign(section, keys, value, faults)
    return _make_config(data, faults, path).environment


def replace_keys(section: EnvironmentSection, args: Mapping[str, Any]) -> EnvironmentSection:
    """Return a section with `args` in place of its keys, or as more arguments of its id's environment."""
    if not args:
        return section
    if not section.is_composed:
        return section.model_copy(update={"args": {**section.args, **args}})
    data = section.model_dump(exclude_defaults=True)
    faults: list[str] = []
    for name, value in args.items():
        _assign(data, name.split("."), value, faults)
    return _make_config({"environment": data}, faults, None).environment


def _make_config(data: dict[str, Any], faults: list[str], path: Path | None) -> RunConfig:
    """Validate. A composed environment's paths start at the file, unless it says otherwise."""
    section = data.get("environment")
    if path is not None and isinstance(section, dict) and any(section.get(key) for key in PART_KEYS):
        section.setdefault("base_dir", str(path.expanduser().absolute().parent))
    try:
        config = RunConfig.model_validate(data)
    except ValidationError as error:
        found = [*error.errors()]
        faults += [_describe(item, data) for item in found]
        faults += _find_part_faults(data, [item["loc"] for item in found], path)
    if faults:
        where = f" in {path}" if path else ""
        head = f"{len(faults)} wrong setting{'s' if len(faults) > 1 else ''}{where}:"
        raise ConfigError(
            "\n".join([head, *(f"  {f}" for f in faults)]),
            hint="`castform train --settings` lists all settings",
        )
    return config


def _find_part_faults(
    data: Mapping[str, Any], wrong: Sequence[Sequence[Any]], path: Path | None
) -> list[str]:
    """Return what else is wrong with the parts of an environment, those that are wrong in form left out."""
    section = data.get("environment")
    if not isinstance(section, dict) or section.get("id") or not any(section.get(key) for key in PART_KEYS):
        return []
    dropped: dict[Any, set[int]] = {}
    for loc in wrong:
        if loc[0] == "environment" and len(loc) > 1:
            places = dropped.setdefault(loc[1], set())
            places.update(place for place in loc[2:3] if isinstance(place, int))
    rest = {key: value for key, value in section.items() if key not in dropped}
    written: dict[str, Any] = {}
    for key, places in dropped.items():
        if places and key in PART_LISTS:
            parts = PART_LISTS[key](section[key], key)
            written[key] = [part for place, part in enumerate(parts) if place not in places]
    try:
        found = EnvironmentSection.model_validate(
            {**rest, **dict.fromkeys(written, ())}, context={"written": written}
        )
    except ValidationError:
        return []
    from castform.compose.load import find_faults

    return find_faults(found, where=str(path or "this run"))


def list_settings() -> list[dict[str, str]]:
    """Return name, default and summary of every setting, in the order of the config."""
    return [
        {
            "name": f"{section}.{key}",
            "default": "" if (value := field.get_default(call_default_factory=True)) is None else f"{value}",
            "summary": (field.description or "").replace("\n", " "),
        }
        for section, holder in RunConfig.model_fields.items()
        for key, field in type(holder.default).model_fields.items()
    ]


def parse_value(text: str) -> Any:
    """Read a command-line value as TOML; what is not TOML is the string itself."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read the config {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from error


def _assign(data: dict[str, Any], keys: Sequence[str], value: Any, faults: list[str]) -> None:
    place = data
    for key in keys[:-1]:
        inner = place.setdefault(key, {})
        if not isinstance(inner, dict):
            faults.append(f"{'.'.join(keys)}: {key} is a value, not a section")
            return
        place = inner
    place[keys[-1]] = value


def _describe(item: Mapping[str, Any], data: Mapping[str, Any]) -> str:
    """Return one fault with its place as it is written in the TOML."""
    loc = item["loc"]
    name = _place(loc, data) or "config"
    if item["type"] == "extra_forbidden":
        known = _known_keys(loc[:-1])
        close = difflib.get_close_matches(str(loc[-1]), known, n=1)
        advice = f"did you mean {close[0]!r}?" if close else f"known here: {', '.join(known)}"
        return f"{name}: unknown key; {advice}"
    if item["type"] == "missing":
        return f"{name}: is required"
    message = str(item["msg"]).removeprefix("Value error, ")
    if item["type"] == "value_error":
        return message if len(loc) < 2 else f"{name}: {message}"
    return f"{name} = {item['input']!r}: {message}"


def _place(loc: Sequence[str | int], data: Any) -> str:  # whatever stands in the TOML
    """Return where a fault is: `environment.rewards[1].weight`, or by the id where a table has ids as keys."""
    text = ""
    for part in loc:
        if isinstance(part, int) and isinstance(data, Mapping):  # the short form of a list of parts
            key = list(data)[part] if part < len(data) else part
            text += f'."{key}"'
            data = data.get(key)
            continue
        text += f"[{part}]" if isinstance(part, int) else f"{'.' if text else ''}{part}"
        if isinstance(data, Mapping):
            data = data.get(part)
        elif isinstance(data, list) and isinstance(part, int) and part < len(data):
            data = data[part]
        else:
            data = None
    return text


def _known_keys(loc: Sequence[str | int]) -> list[str]:
    """Return the keys of the section at a place."""
    section: Any = RunConfig
    for part in loc:
        if not isinstance(part, int):  # an index leads into the items, whose class is known already
            section = _section_class(section.model_fields[part].annotation)
    return [name for name in section.model_fields if name != "at"]


def _section_class(annotation: Any) -> Any:  # a type hint
    """Return the section class in a hint such as `tuple[ToolPart, ...]` or `JudgePart | None`."""
    if isinstance(annotation, type) and issubclass(annotation, _Section):
        return annotation
    return next(filter(None, (_section_class(inner) for inner in get_args(annotation))), None)
