"""From a section or a TOML file to an environment that can run, or one error with every fault."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from castform.compose.composing import Composing
from castform.compose.environment import ComposedEnvironment
from castform.compose.faults import Faults
from castform.compose.pin import make_pin
from castform.errors import ConfigError, UsageError
from castform.plugins.loader import load_registry
from castform.plugins.plugin import Plugin
from castform.plugins.registry import Registry

if TYPE_CHECKING:
    from castform.environment_section import EnvironmentSection
    from castform.plugins.environments import LoadedEnvironment


def load_composed(
    path: Path,
    args: Mapping[str, Any] | None = None,
    *,
    weights: Mapping[str, float] | None = None,
    registry: Registry[Plugin] | None = None,
) -> LoadedEnvironment:
    """Load the environment that a TOML file composes, or names by an id.

    `args` replace keys of its `[environment]`; dots lead further in (`dataset.args.seed`).
    `weights` are those of a run's config, which win. ConfigError with everything that is wrong.
    """
    from castform.config import read_environment_file
    from castform.plugins.environments import load_environment

    section = read_environment_file(path, args or {})
    if section.id:
        if section.id.endswith(".toml"):
            raise UsageError(
                f"{path}: environment.id is {section.id!r}, another TOML",
                hint="give that file itself, or name parts here",
            )
        return load_environment(section.id, section.args, registry=registry)
    loaded = compose_section(
        section, name=path.name, where=str(path), weights=weights or {}, registry=registry
    )
    return dataclasses.replace(loaded, id=str(path))


def compose_section(
    section: EnvironmentSection,
    *,
    name: str = "composed",
    where: str = "this run",
    weights: Mapping[str, float] | None = None,
    registry: Registry[Plugin] | None = None,
) -> LoadedEnvironment:
    """Compose the environment of a section with parts.

    `name` is what the pin calls it and `where` what messages do; relative paths start at the
    section's base_dir. `weights` win over the section's and are no part of the pin. ConfigError
    with every fault that can be seen before rows of plugins are read.
    """
    from castform.plugins.environments import LoadedEnvironment

    if section.mix:
        from castform.mixture.load import load_mixture

        return load_mixture(section, id="" if name == "composed" else name, where=where)
    faults = Faults()
    weights = {**section.weights, **(weights or {})}
    work = Composing(
        section, where, load_registry() if registry is None else registry, faults, weights=weights
    )
    composition = work.compose()
    faults.raise_if_any(where)
    if composition is None:
        raise ConfigError(f"the environment of {where} is not complete")
    return LoadedEnvironment(
        id=name,
        environment=ComposedEnvironment(composition),
        pin=make_pin(name, plain_section(section), composition.parts, work.data_files),
        base_dir=section.base_dir,
        summary=section.summary,
        parts=composition.parts,
    )


def find_faults(section: EnvironmentSection, *, where: str, dropped: Collection[str]) -> list[str]:
    """Return what else is wrong with a section that lost some of its keys, `dropped`, for their form."""
    if section.mix:
        return []
    faults = Faults()
    Composing(section, where, load_registry(), faults, weights=section.weights, dropped=dropped).compose()
    return faults.lines


def plain_section(section: EnvironmentSection) -> dict[str, Any]:
    """Return a section as plain data, without defaults, the folder that it lies in and where it runs."""
    from castform.environment_section import WORKER_KEYS

    data: dict[str, Any] = section.model_dump(
        mode="json", exclude_defaults=True, exclude={"base_dir", "id", *WORKER_KEYS}
    )
    return data
