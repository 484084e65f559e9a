"""Everything that can be found wrong before a finetuning run starts, found before it starts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from castform.errors import UsageError
from castform.plugins.watchers import load_watchers
from castform.sft.config import SftConfig
from castform_trainer.engines.lora_folder import load_lora_folder
from castform_trainer.models import ModelFolder, open_model
from castform_trainer.sft.batch import Sample
from castform_trainer.sft.inputs import Inputs, describe_inputs
from castform_trainer.sft.masking import load_turn_template
from castform_trainer.sft.sampled_rows import SampledRows
from castform_trainer.sft.samples import check_eval_size, check_held_out, load_dataset, make_samples
from castform_trainer.sft.schedule import Schedule, make_schedule

FULL_BYTES_PER_WEIGHT = 16
"""float32 weight, gradient and the two moments of AdamW."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Prepared:
    """What a run needs, opened and checked. No weights are loaded yet."""

    config: SftConfig
    model: ModelFolder
    schedule: Schedule
    train: Sequence[Sequence[Sample]]
    """The samples of each training row."""
    held_out: Sequence[Sample]
    """Empty without an eval file."""
    sampled_rows: Mapping[str, int | None]
    """How many rows of each file are trained on ids that were sampled; None where no such ids are kept."""
    eval_rows: int
    context_tokens: int
    inputs: Inputs


def prepare(config: SftConfig, *, now: datetime | None = None) -> Prepared:
    """Open model folder, template, data, adapter and watchers; mask and measure every row.

    `now` is the moment that the rows of the whole run are rendered for, by a template that writes
    the date; without one it is that of the call.

    Raises CastformError (mostly UsageError or MissingError) for the first kind of thing that is
    wrong, with all of its places.
    """
    if config.data.train is None:
        raise UsageError("no training data given", hint="`castform sft train FILE -m MODEL`")
    model = open_model(config.model)
    if config.model.adapter is not None:
        load_lora_folder(config.model.adapter)
    load_watchers(config.run.watchers)
    now = (now or datetime.now()).replace(microsecond=0)
    template = load_turn_template(model, now=now)
    limit = _context_limit(config, model)
    files: dict[str, tuple[Path, Any, list[Sample]]] = {}
    sampled_rows: dict[str, int | None] = {}
    for split, path in (("train", config.data.train), ("eval", config.data.eval)):
        if path is not None:
            dataset = load_dataset(path)
            if split == "eval":
                check_eval_size(dataset, path)
            sampled = SampledRows(path, template) if config.data.use_sampled_ids else None
            samples = make_samples(dataset, template, path=path, limit=limit, sampled=sampled)
            files[split] = path, dataset, samples
            sampled_rows[split] = None if sampled is None or not len(sampled) else sampled.used
    _, train_rows, train = files["train"]
    held_out = files["eval"][2] if "eval" in files else []
    check_held_out(train, held_out)
    by_row: list[list[Sample]] = [[] for _ in range(len(train_rows))]
    for sample in train:
        by_row[sample.row].append(sample)
    return Prepared(
        config=config,
        model=model,
        schedule=make_schedule(config, len(train_rows)),
        train=by_row,
        held_out=held_out,
        sampled_rows=sampled_rows,
        eval_rows=len(files["eval"][1]) if "eval" in files else 0,
        context_tokens=limit,
        inputs=describe_inputs(
            files=files,
            template=template.source,
            rendered_at=now if template.reads_clock else None,
            model=model,
            adapter=config.model.adapter,
        ),
    )


def describe_plan(prepared: Prepared) -> dict[str, Any]:
    """Return what a run would do, as plain values."""
    config, model, schedule = prepared.config, prepared.model, prepared.schedule
    samples = [sample for row in prepared.train for sample in row]
    return {
        "train": {
            "path": str(config.data.train),
            "rows": len(prepared.train),
            "sampled_rows": prepared.sampled_rows["train"],
            "samples": len(samples),
            "tokens": sum(len(sample.ids) for sample in samples),
            "trained_tokens": sum(sum(weight > 0 for weight in sample.weights) for sample in samples),
            "longest": max(len(sample.ids) for sample in samples),
        },
        "eval": None
        if config.data.eval is None
        else {
            "path": str(config.data.eval),
            "rows": prepared.eval_rows,
            "sampled_rows": prepared.sampled_rows["eval"],
        },
        "model": str(model.path),
        "device": model.device,
        "dtype": model.dtype,
        "context_tokens": prepared.context_tokens,
        "method": config.run.method,
        "learning_rate": config.learning_rate,
        "steps": schedule.steps,
        "steps_per_epoch": schedule.steps_per_epoch,
        "training_bytes": _training_bytes(prepared),
        "config": config.model_dump(mode="json"),
    }


def _training_bytes(prepared: Prepared) -> int | None:
    """Return the memory of weights, gradients and optimiser of full finetuning; None for LoRA."""
    if prepared.config.run.method != "full":
        return None
    stored = sum(path.stat().st_size for path in prepared.model.path.glob("*.safetensors"))
    wide = _model_config(prepared.model).get("dtype", "float32") in ("float32", None)
    return stored // (4 if wide else 2) * FULL_BYTES_PER_WEIGHT


def _context_limit(config: SftConfig, model: ModelFolder) -> int:
    """Return the most tokens of a row: what the config says, within what the model can."""
    found = _model_config(model)
    text = found.get("text_config") or found
    own = text.get("max_position_embeddings") or text.get("n_positions")
    wanted = config.data.max_context_tokens
    if own is None and wanted is None:
        raise UsageError(
            f"the config of {model.path} does not say how many tokens the model reads",
            hint="set data.max_context_tokens",
        )
    if wanted is not None and own is not None and wanted > own:
        raise UsageError(f"data.max_context_tokens is {wanted:,}, but the model reads {own:,} tokens at most")
    return int(wanted or own or 0)


def _model_config(model: ModelFolder) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((model.path / "config.json").read_text(encoding="utf-8"))
    return found
