"""What may stand in `[environment.mix]` or `[[environment.mix]]`."""

from __future__ import annotations

from pydantic import Field

from castform.compose.settings import Part
from castform.workers.limits import MAX_WORKERS


class MixPart(Part):
    """One environment of several."""

    id: str = Field(min_length=1)
    """As `[environment] id` has it: a plugin's environment, or a path."""
    name: str = ""
    """In example ids and before component names. Unset: the plugin's or the file's name."""
    weight: float | None = Field(None, gt=0)
    """Its share of the examples. Given for all or for none; for none, they take turns until all are asked."""
    weights: dict[str, float] = Field(default_factory=dict)
    """Weights of its reward components, by the names that it has for them itself."""
    workers: int = Field(0, ge=0, le=MAX_WORKERS)
    """Worker processes. 0: in process, unless the plugin is installed isolated."""
