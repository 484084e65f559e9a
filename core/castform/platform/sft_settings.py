"""Turn the arguments of a launch into the settings of a finetuning run, and those into a file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from castform.platform.model_default import FoundModel
from castform.platform.request import SftLaunch
from castform.platform.training_config import DEFAULT_WIDTH, WIDTHS, SftTrainingConfig

Sections = dict[str, dict[str, Any]]  # TOML values

PLACES: Mapping[str, str] = {
    "num_epochs": "run.epochs",
    "seed": "run.seed",
    "learning_rate": "optimizer.learning_rate",
    "lr_decay_style": "optimizer.decay",
    "min_lr": "optimizer.min_learning_rate",
    "warmup_ratio": "optimizer.warmup_ratio",
    "adam_beta2": "optimizer.beta2",
    "grad_clip": "optimizer.max_grad_norm",
    "lora_rank": "lora.rank",
    "global_batch_size": "batch.rows",
    "save_interval": "checkpoint.every",
    "eval_interval": "eval.every",
    "max_context_tokens": "data.max_context_tokens",
}
"""Argument to setting; what an argument leaves out keeps the setting's own default."""


def make_settings(launch: SftLaunch, *, model: FoundModel, train: Path, held_out: Path | None) -> Sections:
    """Return the settings of a launch, as SftConfig takes them.

    Alpha is twice the rank. A batch that was not chosen is the platform's, a measurement that was
    not chosen comes with every checkpoint. The context is never above what the model reads: a row
    that is longer could not be trained on anyhow.
    """
    args = SftTrainingConfig(**launch["args"], model=launch.get("model")).to_args()
    args.setdefault("global_batch_size", WIDTHS.get(launch.get("model", ""), DEFAULT_WIDTH))
    if held_out is not None:
        args.setdefault("eval_interval", args["save_interval"])
    if model.context_tokens is not None:
        args["max_context_tokens"] = min(args["max_context_tokens"], model.context_tokens)
    settings: Sections = {
        "run": {"name": launch["name"]},
        "model": {"id": model.id},
        "data": {"train": str(train), **({} if held_out is None else {"eval": str(held_out)})},
    }
    for name, value in args.items():
        section, _, key = PLACES[name].partition(".")
        settings.setdefault(section, {})[key] = value
    if "lora_rank" in args:
        settings["lora"]["alpha"] = 2.0 * args["lora_rank"]
    return settings


def write_toml(path: Path, settings: Sections) -> None:
    """Write settings of texts and numbers, so that `castform sft train --config` reads them back."""
    blocks = [
        "\n".join([f"[{section}]", *(f"{key} = {_toml(value)}" for key, value in values.items())])
        for section, values in settings.items()
    ]
    path.write_text("\n\n".join(blocks) + "\n", encoding="utf-8")


def _toml(value: str | float) -> str:
    if isinstance(value, str):  # a JSON text is a TOML text, but for one character
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)
