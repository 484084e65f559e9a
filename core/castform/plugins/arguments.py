"""What an environment's factory takes, and what else can be said of it without running it."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from castform.plugins.environments import LoadedEnvironment
from castform.plugins.references import load_config_model, load_factory
from castform.plugins.specs import RewardSpec

BOUNDS = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}
"""JSON schema's words for a number's range."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Argument:
    """One argument of an environment."""

    name: str
    type: str
    default: str
    """As it is written in a config; empty for an argument that must be given."""
    description: str = ""


def summarize_environment(loaded: LoadedEnvironment) -> str:
    """Return one line: its spec's, or the first of its class's docstring, or of its file's."""
    if loaded.spec is not None:
        return loaded.spec.summary
    if loaded.remote is not None:
        return loaded.remote.summary
    if loaded.parts:
        return loaded.summary or ", ".join(f"{part.kind} {part.id}" for part in loaded.parts)
    kind = type(loaded.environment)
    doc = kind.__doc__ or sys.modules[kind.__module__].__doc__
    return inspect.cleandoc(doc or "").partition("\n")[0]


def list_rewards(loaded: LoadedEnvironment) -> list[str]:
    """Return the ids of the rewards that its plugin registers."""
    if loaded.remote is not None:
        return list(loaded.remote.rewards)
    if loaded.plugin is None:
        return []
    return [f"{loaded.plugin.name}/{name}" for name in loaded.plugin.specs(RewardSpec)]


def list_arguments(loaded: LoadedEnvironment) -> list[Argument]:
    """Return the arguments of an environment: its config model's fields, or its factory's parameters."""
    if loaded.remote is not None:
        return list(loaded.remote.arguments)
    if loaded.parts:
        return []  # what a TOML says is not given as arguments
    if loaded.spec is None or loaded.plugin is None:
        return _list_parameters(type(loaded.environment))
    model = load_config_model(loaded.plugin, loaded.spec)
    if model is None:
        return _list_parameters(load_factory(loaded.plugin, loaded.spec))
    schema = model.model_json_schema()
    return [
        Argument(
            name=name,
            type=_name_type(field),
            default="" if name in schema.get("required", ()) else json.dumps(field.get("default")),
            description=field.get("description", ""),
        )
        for name, field in schema.get("properties", {}).items()
    ]


def _list_parameters(factory: Any) -> list[Argument]:  # any callable
    arguments = []
    for parameter in inspect.signature(factory).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        annotation = parameter.annotation
        arguments.append(
            Argument(
                name=parameter.name,
                type="" if annotation is parameter.empty else inspect.formatannotation(annotation).strip("'"),
                default="" if parameter.default is parameter.empty else repr(parameter.default),
            )
        )
    return arguments


def _name_type(field: Mapping[str, Any]) -> str:
    if "enum" in field:
        return " | ".join(repr(value) for value in field["enum"])
    if "anyOf" in field:
        return " | ".join(_name_type(option) for option in field["anyOf"])
    name = str(field.get("type") or str(field.get("$ref", "any")).rpartition("/")[2])
    bounds = [f"{sign} {field[key]}" for key, sign in BOUNDS.items() if key in field]
    return f"{name} ({', '.join(bounds)})" if bounds else name
