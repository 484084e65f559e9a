"""From a run's config to a running engine."""

from __future__ import annotations

from typing import cast

from castform.config import RunConfig
from castform.plugins import load_engine_factory
from castform_trainer.engines.contract import Engine
from castform_trainer.models import ModelFolder


def make_engine(config: RunConfig, folder: ModelFolder) -> Engine:
    """Start the engine that `config.engine.name` names, castform's own or a plugin's, on a model.

    Blocks until it can answer. Raises UsageError for an unknown name, ConfigError for wrong
    options, MissingError for a missing extra, and what the engine itself cannot do with the model.
    """
    factory = load_engine_factory(config.engine.name)
    return cast("Engine", factory(config, folder))  # the factory is found by name, its type is a promise
