"""What castform reads: names and strings, nothing heavy imported."""

from __future__ import annotations

from castform.plugins import EnvironmentSpec, hookimpl
from castform_env_gym.names import DATASETS, NO_GOLD


@hookimpl
def register_environments() -> list[EnvironmentSpec]:
    return [
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
