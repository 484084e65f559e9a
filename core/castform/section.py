"""The base of every section of a config: unknown keys are errors, and nothing changes after it was read."""

from __future__ import annotations

from typing import Any, get_args

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
        if isinstance(value, bool) and is_number(cls.model_fields[info.field_name or ""].annotation):
            raise ValueError(NO_TRUTH)
        return value


NO_TRUTH = "must be a number, not true or false"


def is_number(annotation: Any) -> bool:  # a type, or a union of them
    """Say whether a field takes numbers and no truth values, which pydantic would take for 1 and 0."""
    kinds = set(get_args(annotation)) or {annotation}
    return bool(kinds & {int, float}) and bool not in kinds
