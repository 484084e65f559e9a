"""What a user can set on the environments of this plugin."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from castform_env_gym.names import DATASETS

OURS = frozenset({"seed", "size"})
LevelNumber = Annotated[int, Field(ge=0, strict=True)]
Level = LevelNumber | Literal["easy", "medium", "hard"]


class Sizes(BaseModel):
    """What all environments of this plugin take."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    seed: int = Field(0, ge=0, lt=2**31)
    """Decides which questions are drawn, and their order."""
    train_examples: int = Field(400, ge=1, le=100_000)
    """Most training questions. A dataset that has fewer gives all it has."""
    eval_examples: int = Field(100, ge=1, le=100_000)
    """Most held-out questions."""
    answer: Literal["tags", "text"] = "tags"
    """What is scored: the inside of the one pair of <answer> tags, or the whole reply, without the space around it."""
    solved_examples: int = Field(0, ge=0, le=4)
    """Training questions that are shown with their answers in front of each one, and then not asked. A small model
    needs one to find the tags."""
    curriculum: Literal["up_to", "only"] = "up_to"
    """Whether a level has the questions of all levels up to it, or its own alone where the dataset can tell them apart."""


class GymConfig(Sizes):
    """Sizes, seed and how hard it is. Which questions are held out depends on none of them."""

    level: Level | dict[str, Level] | None = None
    """A level of reasoning-gym's curriculum, from 0; easy, medium or hard; or one for each attribute, as in
    {num_animals = 3}. Unset: the dataset's own defaults. `castform x gym levels NAME` lists them."""
    options: dict[str, Any] = Field(default_factory=dict)
    """The dataset's own options, as reasoning-gym names them: {min_terms = 2, max_terms = 3}. They win over the level."""

    @field_validator("options")
    @classmethod
    def _leave_seed_and_size(cls, options: dict[str, Any]) -> dict[str, Any]:
        return _without_ours(options)


class MixConfig(Sizes):
    """Several datasets in one, and how much of each."""

    datasets: dict[str, float] = Field(
        default_factory=lambda: {"leg_counting": 1.0, "gcd": 1.0, "chain_sum": 1.0}
    )
    """Names and weights: {gcd = 2, chain_sum = 1} asks twice as often for the first."""
    levels: dict[str, Level | dict[str, Level]] = Field(default_factory=dict)
    """Name to level, as `level` of one dataset."""
    options: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Name to options, as `options` of one dataset."""

    @field_validator("datasets")
    @classmethod
    def _known_with_weights(cls, datasets: dict[str, float]) -> dict[str, float]:
        if not datasets:
            raise ValueError("name at least one dataset")
        found: dict[str, float] = {}
        for name, weight in datasets.items():
            known = find_dataset(name)
            if not math.isfinite(weight) or weight <= 0:
                raise ValueError(f"the weight of {name} must be above 0, not {weight}")
            if known in found:
                raise ValueError(f"{known} is named twice")
            found[known] = weight
        return found

    @field_validator("levels", "options")
    @classmethod
    def _by_known_name(cls, settings: dict[str, Any]) -> dict[str, Any]:
        return {find_dataset(name): value for name, value in settings.items()}

    @field_validator("options")
    @classmethod
    def _leave_seed_and_size(cls, options: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        return {name: _without_ours(own) for name, own in options.items()}

    def model_post_init(self, _: Any) -> None:
        """Refuse settings of datasets that are not in the mix."""
        for field in ("levels", "options"):
            strangers = sorted(getattr(self, field).keys() - self.datasets.keys())
            if strangers:
                raise ValueError(f"{field} names {', '.join(strangers)}, which is not among the datasets")

    def for_dataset(self, name: str) -> GymConfig:
        """Return the settings of one of the datasets."""
        return GymConfig(
            seed=self.seed,
            train_examples=self.train_examples,
            eval_examples=self.eval_examples,
            answer=self.answer,
            solved_examples=self.solved_examples,
            curriculum=self.curriculum,
            level=self.levels.get(name),
            options=self.options.get(name, {}),
        )


def find_dataset(name: str) -> str:
    """Return a dataset's name as reasoning-gym writes it. ValueError: there is none."""
    known = name.replace("-", "_").lower()
    if known in DATASETS:
        return known
    from difflib import get_close_matches

    close = get_close_matches(known, DATASETS, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    raise ValueError(f"reasoning-gym has no dataset {name!r} that this plugin knows{hint}")


def _without_ours(options: dict[str, Any]) -> dict[str, Any]:
    taken = sorted(OURS & options.keys())
    if taken:
        raise ValueError(f"{' and '.join(taken)} cannot be set here; this environment has its own")
    return options
