"""What castform reads: names and strings, nothing heavy imported."""

from __future__ import annotations

import argparse

from castform.plugins import CommandGroup, EnvironmentSpec, hookimpl
from castform_env_gym.names import DATASETS, NO_GOLD


@hookimpl
def register_environments() -> list[EnvironmentSpec]:
    mix = EnvironmentSpec(
        name="mix",
        summary="Several datasets in one, with weights",
        factory="castform_env_gym.mix:GymMix",
        config="castform_env_gym.config:MixConfig",
        tags=("single-turn", "mixture"),
    )
    return [mix] + [
        EnvironmentSpec(
            name=name,
            summary=f"{name.replace('_', ' ').capitalize()}, of reasoning-gym's {category}"
            + (", without right answers" if name in NO_GOLD else ""),
            factory=f"castform_env_gym.factories:{name}",
            config="castform_env_gym.config:GymConfig",
            tags=("single-turn", category),
        )
        for name, category in DATASETS.items()
    ]


@hookimpl
def register_commands(group: CommandGroup) -> None:
    group.add(
        "levels",
        "Print the levels of a dataset",
        run="castform_env_gym.levels:show",
        add_arguments=_add_arguments,
    )


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("dataset", nargs="?", help="its name; without one, all that there are")
