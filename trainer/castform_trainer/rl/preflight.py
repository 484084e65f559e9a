"""Everything that can be found wrong before a run starts, found before it starts."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmax.envs import Example
from castform.config import RunConfig
from castform.environments import (
    check_named,
    check_ready,
    close_environment,
    load_configured,
    load_examples,
)
from castform.errors import UsageError
from castform.plugins.engines import load_engine_factory
from castform.plugins.environments import LoadedEnvironment
from castform.plugins.pin_changes import describe_changes
from castform.plugins.watchers import load_watchers
from castform.runs import RunRecord, RunStore
from castform_trainer.models import ModelFolder, load_tokenizer, open_model


@dataclass(frozen=True, kw_only=True, slots=True)
class Prepared:
    """What a run needs, opened and checked. No weights are loaded yet."""

    config: RunConfig
    environment: LoadedEnvironment
    model: ModelFolder
    train_examples: Sequence[Example[Any]]
    tokenizer: Any
    """`Any`: transformers has no type information."""
    eval_examples: Sequence[Example[Any]]
    """Held out: none of them is among the training examples."""


async def prepare(config: RunConfig) -> Prepared:
    """Open environment, datasets, model folder, tokenizer, chat template, engine name and watchers.

    Raises CastformError (mostly UsageError or MissingError) for the first thing that is wrong, once the
    environment is closed again; of what is returned the caller closes it.
    """
    check_named(config.environment)
    model = open_model(config.model)
    load_engine_factory(config.engine.name)
    load_watchers(config.run.watchers)
    loaded = load_configured(config.environment)
    try:
        return await _prepare(config, model, loaded)
    except BaseException:
        await close_environment(loaded.environment)
        raise


async def _prepare(config: RunConfig, model: ModelFolder, loaded: LoadedEnvironment) -> Prepared:
    base_dir = loaded.base_dir if config.environment.base_dir == Path() else config.environment.base_dir
    train_examples = await load_examples(loaded.environment, "train", base_dir)
    eval_examples = await load_examples(loaded.environment, "eval", base_dir, limit=config.eval.examples)
    _check_held_out(train_examples, eval_examples)
    await check_ready(loaded.environment)
    tokenizer = await asyncio.to_thread(load_tokenizer, model)
    return Prepared(
        config=config,
        environment=loaded.with_examples(train=train_examples, eval=eval_examples),
        model=model,
        train_examples=train_examples,
        eval_examples=eval_examples,
        tokenizer=tokenizer,
    )


def check_environment(prepared: Prepared, record: RunRecord, store: RunStore) -> None:
    """Raise UsageError, with everything that changed, unless the run was started in this environment."""
    loaded = prepared.environment
    stored = store.get_pin(record.pin) if record.pin else None
    changes = describe_changes(
        record.environment,
        loaded.pin,
        details=stored.details if stored else None,
        examples={"train": prepared.train_examples, "eval": prepared.eval_examples},
    )
    if not changes:
        return
    source, version = record.environment.get("distribution"), record.environment.get("version")
    is_other_version = bool(source and version) and version != loaded.pin.version
    old = f"`pip install {source}=={version}`" if is_other_version else "put it back as it was"
    raise UsageError(
        f"the environment {loaded.pin.id} is not the one that run {record.run_id} was started with:\n"
        + "\n".join(f"  {line}" for line in changes),
        hint=f"{old} to go on with this run, or start a new one in the changed environment; `castform rescore "
        f"{record.run_id}` shows what the change does to the rewards of the rollouts so far",
    )


def describe_plan(prepared: Prepared) -> dict[str, Any]:
    """Return what a run would do, as plain values."""
    config, model = prepared.config, prepared.model
    return {
        "environment": prepared.environment.pin.as_dict(),
        "train_examples": len(prepared.train_examples),
        "eval_examples": len(prepared.eval_examples),
        "model": str(model.path),
        "device": model.device,
        "dtype": model.dtype,
        "engine": config.engine.name,
        "steps": config.run.steps,
        "rollouts_per_step": config.rl.groups_per_step * config.rl.group_size,
        "most_rollouts_per_step": config.rl.groups_per_step
        * config.rl.group_size
        * (1 + config.rl.max_refills),
        "eval_rollouts": 2 * len(prepared.eval_examples) * config.eval.samples,
        "config": config.model_dump(mode="json"),
    }


def _check_held_out(train: Sequence[Example[Any]], held_out: Sequence[Example[Any]]) -> None:
    known = {example.id: example.payload for example in train}
    both = [
        example.id for example in held_out if example.id in known and known[example.id] == example.payload
    ]
    if both:
        raise UsageError(
            f"{len(both)} of the {len(held_out)} evaluation examples are training examples too, "
            f"{both[0]!r} for one, so a verdict would not be on held-out data",
            hint="let create_dataset return different examples for the splits train and eval",
        )
