"""The base of every section of a config: unknown keys are errors, and nothing changes after it was read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator


class Section(BaseModel):
    """Unknown keys are errors, and true is no number."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        validate_default=True,
        use_attribute_docstrings=True,
        allow_inf_nan=False,
    )

    @field_validator("*", mode="before")
    @classmethod
    def _check_no_truth(cls, value: object, info: ValidationInfo) -> object:
        annotation = cls.model_fields[info.field_name or ""].annotation
        for place, _ in find_truths(annotation, value):
            raise ValueError(f"{place}: {NO_TRUTH}" if place else NO_TRUTH)
        return value


NO_TRUTH = "must be a number, not true or false"


def find_truths(
    annotation: Any,  # a type, or a union of them
    value: object,
    place: str = "",
) -> Iterator[tuple[str, bool]]:
    """Yield each true and false that stands for a number, which pydantic takes for 1 or 0, with its place.

    A place is written `name.key[2]`, from the value on; it is empty where the value itself is meant.
    Lists, mappings and models are looked into as far as the annotation says what is in them; a Section
    looks itself.
    """
    kinds = list(_list_kinds(annotation))
    if isinstance(value, bool):
        if bool not in kinds and (int in kinds or float in kinds):
            yield place, value
        return
    for kind in kinds:
        for part, inner, name in _list_parts(kind, value):
            yield from find_truths(inner, part, f"{place}{name if place else name.removeprefix('.')}")


def _list_parts(kind: Any, value: object) -> Iterator[tuple[object, Any, str]]:
    """Yield what is in a value, with its type and its name in the place."""
    inner = get_args(kind)
    if isinstance(value, Mapping) and isinstance(kind, type) and issubclass(kind, BaseModel):
        for key, field in {} if issubclass(kind, Section) else kind.model_fields.items():
            if key in value:
                yield value[key], field.annotation, f".{key}"
    elif isinstance(value, Mapping) and len(inner) == 2:
        for key, item in value.items():
            yield item, inner[1], f".{key}"
    elif isinstance(value, list | tuple) and inner:
        one_each = get_origin(kind) is tuple and inner[-1] is not Ellipsis
        for number, item in enumerate(value[: len(inner)] if one_each else value):
            yield item, inner[number if one_each else 0], f"[{number}]"


def _list_kinds(annotation: Any) -> Iterator[Any]:
    """Yield the types of a union, without what Annotated adds."""
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from _list_kinds(get_args(annotation)[0])
    elif origin in (Union, UnionType):
        for each in get_args(annotation):
            yield from _list_kinds(each)
    else:
        yield annotation
