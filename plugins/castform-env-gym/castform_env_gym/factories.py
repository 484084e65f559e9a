"""One factory a dataset: `castform_env_gym.factories:gcd` makes `gym/gcd`."""

from __future__ import annotations

from dataclasses import dataclass

from castform_env_gym.config import GymConfig
from castform_env_gym.environment import Gym
from castform_env_gym.names import DATASETS


@dataclass(frozen=True, slots=True)
class Factory:
    """Makes the environment of one dataset."""

    dataset: str

    def __call__(self, config: GymConfig) -> Gym:
        return Gym(self.dataset, config)


def __getattr__(name: str) -> Factory:
    """Return the factory of a dataset, so that 105 functions need not be written."""
    if name not in DATASETS:
        raise AttributeError(f"reasoning-gym has no dataset {name!r} that this plugin knows")
    return Factory(name)
