"""What a user can set on the environments of this plugin."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class VerifiersConfig(BaseModel):
    """Which verifiers environment, and how it is made."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    name: str = Field(min_length=1)
    """As `verifiers.load_environment` takes it: the package's name, with or without an owner before it."""
    args: dict[str, Any] = Field(default_factory=dict)
    """Arguments of its load_environment."""
    held_out: float = Field(0.2, gt=0, lt=1)
    """Share of the rows that only evaluation sees, where the environment has no evaluation dataset."""


class SumsConfig(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    largest: int = Field(9, ge=2, le=99)
    """Largest summand."""
