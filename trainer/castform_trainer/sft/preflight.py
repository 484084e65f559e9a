"""Everything that can be found wrong before a finetuning run starts, found before it starts."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from safetensors import safe_open

from benchmax.sft import SftDataset
from castform.errors import UsageError
from castform.plugins.watchers import load_watchers
from castform.sft.config import SftConfig
from castform_trainer.engines.lora_folder import load_lora_folder
from castform_trainer.learning.lora import check_lora_fits
from castform_trainer.models import ModelFolder, make_empty_causal_lm, open_model
from castform_trainer.sft.batch import Sample
from castform_trainer.sft.inputs import Inputs, describe_inputs
from castform_trainer.sft.masking import MaskError, TurnTemplate, load_turn_template
from castform_trainer.sft.questions import Question, make_questions
from castform_trainer.sft.sampled_rows import SampledRows
from castform_trainer.sft.samples import (
    Report,
    check_eval_size,
    check_held_out,
    load_dataset,
    make_samples,
    raise_fault,
)
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
    questions: Sequence[Question]
    """The held-out rows that the model answers before and after."""
    template: TurnTemplate
    sampled_rows: Mapping[str, int | None]
    """How many rows of each file are trained on ids that were sampled; None where no such ids are kept."""
    eval_rows: int
    context_tokens: int
    inputs: Inputs


@dataclass(frozen=True, kw_only=True, slots=True)
class Examined:
    """Model and data of a run, opened and measured. What is wrong with them was reported."""

    model: ModelFolder
    template: TurnTemplate
    context_tokens: int
    now: datetime
    """The moment that the rows were rendered for."""
    files: Mapping[str, tuple[Path, SftDataset, list[Sample]]]
    """By split, `train` and `eval`: the samples of the rows that can be masked."""
    sampled_rows: Mapping[str, int | None]
    """By split: rows that are trained on with the ids that were sampled; None without such a file."""
    unmasked: Mapping[str, Mapping[int, MaskError]]
    """By split: the rows that cannot be masked, and why. Empty unless reporting goes on."""


def prepare(config: SftConfig, *, now: datetime | None = None) -> Prepared:
    """Open model folder, template, data, adapter and watchers; mask and measure every row.

    `now` is the moment that the rows of the whole run are rendered for, by a template that writes
    the date; without one it is that of the call.

    Raises CastformError (mostly UsageError or MissingError) for the first kind of thing that is
    wrong, with all of its places. `castform sft check` tells of all kinds.
    """
    found = examine(config, now=now)
    _, train_rows, train = found.files["train"]
    by_row: list[list[Sample]] = [[] for _ in range(len(train_rows))]
    for sample in train:
        by_row[sample.row].append(sample)
    held_out = found.files.get("eval")
    return Prepared(
        config=config,
        model=found.model,
        schedule=make_schedule(config, len(train_rows)),
        train=by_row,
        held_out=held_out[2] if held_out else [],
        questions=make_questions(
            held_out[1] if held_out else [],
            held_out[2] if held_out else [],
            count=config.eval.answers,
            seed=config.run.seed,
            context_tokens=found.context_tokens,
        ),
        template=found.template,
        sampled_rows=found.sampled_rows,
        eval_rows=len(held_out[1]) if held_out else 0,
        context_tokens=found.context_tokens,
        inputs=describe_inputs(
            files=found.files,
            template=found.template.source,
            rendered_at=found.now if found.template.reads_clock else None,
            model=found.model,
            adapter=config.model.adapter,
            sampled_rows=found.sampled_rows,
        ),
    )


def examine(
    config: SftConfig,
    *,
    now: datetime | None = None,
    report: Report = raise_fault,
    datasets: Mapping[str, SftDataset] | None = None,
) -> Examined:
    """Do everything that can fail before a run starts; the run itself and its check both stand on it.

    `report` is told of each fault of the data, with a code, and may raise it or go on. `datasets`
    are the splits to look at when they are read already; else they are read from the config's
    files. Model, adapter and watchers that cannot be opened raise in any case.
    """
    if config.data.train is None:
        raise UsageError("no training data given", hint="`castform sft train FILE -m MODEL`")
    model = open_model(config.model)
    if config.model.adapter is not None:
        layers = load_lora_folder(config.model.adapter)
        check_lora_fits(layers, make_empty_causal_lm(model.path), config.model.adapter)
    load_watchers(config.run.watchers)
    now = (now or datetime.now()).replace(microsecond=0)
    template = load_turn_template(model, now=now)
    limit = _context_limit(config, model)
    files: dict[str, tuple[Path, SftDataset, list[Sample]]] = {}
    sampled_rows: dict[str, int | None] = {}
    unmasked: dict[str, dict[int, MaskError]] = {}
    for split, path in (("train", config.data.train), ("eval", config.data.eval)):
        if path is None or (datasets is not None and split not in datasets):
            continue
        dataset = load_dataset(path) if datasets is None else datasets[split]
        if split == "eval":
            check_eval_size(dataset, path, report=report)
        sampled = _open_sampled(config, path, template, report)
        samples = make_samples(
            dataset,
            template,
            path=path,
            limit=limit,
            sampled=sampled,
            report=report,
            unmasked=unmasked.setdefault(split, {}),
        )
        files[split] = path, dataset, samples
        sampled_rows[split] = None if sampled is None or not len(sampled) else sampled.used
    if len(files) == 2:
        check_held_out(files["train"][2], files["eval"][2], report=report)
    return Examined(
        model=model,
        template=template,
        context_tokens=limit,
        now=now,
        files=files,
        sampled_rows=sampled_rows,
        unmasked=unmasked,
    )


def _open_sampled(
    config: SftConfig, path: Path, template: TurnTemplate, report: Report
) -> SampledRows | None:
    """Open the token ids beside a file of rows; None when they are not wanted or damaged."""
    if not config.data.use_sampled_ids:
        return None
    try:
        return SampledRows(path, template)
    except UsageError as error:
        report("sampled_ids", error)
        return None


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
            "answers": len(prepared.questions),
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
    """Return the memory of weights, gradients and optimiser of full finetuning; None for LoRA.

    Also None where the weights are not stored as safetensors, whose headers count them.
    """
    files = sorted(prepared.model.path.glob("*.safetensors"))
    if prepared.config.run.method != "full" or not files:
        return None
    weights = 0
    for path in files:
        with safe_open(path, framework="pt") as file:
            weights += sum(math.prod(file.get_slice(name).get_shape()) for name in file.keys())  # noqa: SIM118
    return weights * FULL_BYTES_PER_WEIGHT


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
