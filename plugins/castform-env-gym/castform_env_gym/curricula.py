"""Difficulty by reasoning-gym's curricula: each attribute of a dataset has levels, counted from 0.

A level becomes options of the dataset. Which questions are held out depends on the questions
alone, so it is the same on every level.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal

LevelName = Literal["easy", "medium", "hard"]
Level = int | LevelName
Span = Literal["up_to", "only"]
OURS = frozenset({"seed", "size"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Attribute:
    """One thing that makes a dataset's questions harder."""

    name: str
    levels: tuple[Any, ...]
    """Its value on each level."""
    description: str


def list_attributes(dataset: str) -> list[Attribute]:
    """Return what a dataset's curriculum changes; empty when reasoning-gym has none for it."""
    from reasoning_gym.factory import create_curriculum, has_curriculum

    if not has_curriculum(dataset):
        return []
    return [
        Attribute(name=name, levels=tuple(attribute.levels), description=str(attribute.description or ""))
        for name, attribute in create_curriculum(dataset).attributes.items()
    ]


def describe_levels(dataset: str) -> str:
    """Return a dataset's levels in words, an attribute a line."""
    attributes = list_attributes(dataset)
    if not attributes:
        return f"{dataset} has no levels; its options set how hard it is"
    lines = [f"{dataset} has the levels 0 to {_last(attributes)}:"]
    lines += [f"  {each.name}: {', '.join(map(str, each.levels))}" for each in attributes]
    return "\n".join(lines)


def find_options(dataset: str, level: Level | Mapping[str, Level], span: Span) -> dict[str, Any]:
    """Return the dataset's options on a level, or with a level for each attribute; the others stay on 0.

    "easy" is level 0, "hard" the last one, "medium" the one in the middle. An attribute with
    fewer levels stays on its last. ValueError, with all levels: there is no such level or attribute.
    """
    from reasoning_gym.coaching.base_curriculum import DefaultCurriculumContext, RangeAttributeMode
    from reasoning_gym.factory import create_curriculum

    attributes = {each.name: each for each in list_attributes(dataset)}
    if not attributes:
        raise ValueError(describe_levels(dataset))
    wanted = level if isinstance(level, Mapping) else dict.fromkeys(attributes, level)
    curriculum = create_curriculum(dataset)
    curriculum.set_global_level(0)
    for name, value in wanted.items():
        if name not in attributes:
            close = get_close_matches(name, attributes, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise ValueError(f"{dataset} has no attribute {name!r}{hint}\n{describe_levels(dataset)}")
        last = len(attributes[name].levels) - 1
        most = last if isinstance(level, Mapping) else _last(list(attributes.values()))
        number = {"easy": 0, "medium": most // 2, "hard": most}[value] if isinstance(value, str) else value
        if not 0 <= number <= most:
            raise ValueError(f"{dataset} has no level {number}\n{describe_levels(dataset)}")
        curriculum.set_attr_level(name, min(number, last))
    mode = RangeAttributeMode.UPPER_BOUND if span == "only" else RangeAttributeMode.INCLUSIVE
    made = curriculum.generate_configuration(context=DefaultCurriculumContext(mode=mode))
    return {
        name: value for name, value in vars(made).items() if name not in OURS and _is_set(curriculum, name)
    }


def _is_set(curriculum: Any, field: str) -> bool:
    """Say whether the curriculum decides a field; all others keep the dataset's own defaults."""
    fields: set[str] = set()
    for attribute in curriculum.attributes.values():
        names = (
            getattr(attribute, name, None) for name in ("field_name", "lower_field_name", "upper_field_name")
        )
        fields |= {name for name in names if name}
    return field in fields


def _last(attributes: list[Attribute]) -> int:
    return max(len(each.levels) for each in attributes) - 1
