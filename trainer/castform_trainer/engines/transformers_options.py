"""What `[engine.options]` may say for the transformers engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from castform.errors import ConfigError


class TransformersOptions(BaseModel):
    """`[engine.options]` of a run with `engine.name = "transformers"`."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    prefix_cache_mb: int = Field(256, ge=0)
    """Memory for keys and values of recent prompts, which later prompts continue. 0 switches it off."""
    kv_cache_mb: int = Field(4096, ge=1)
    """Memory for keys and values of the replies in flight; more wait. One reply always runs."""
    prefill_tokens: int = Field(2048, ge=16)
    """Most prompt tokens of one forward pass."""
    prepack: bool = True
    """float32 on the CPU: keep linear weights a second time in oneDNN's faster layout."""


def parse_options(options: Mapping[str, Any]) -> TransformersOptions:
    """Check `[engine.options]`; raises ConfigError with every fault at once."""
    try:
        return TransformersOptions.model_validate(dict(options))
    except ValidationError as error:
        faults = [
            f"  engine.options.{'.'.join(str(part) for part in item['loc'])}: {item['msg']}"
            for item in error.errors()
        ]
        raise ConfigError(
            "\n".join([f"{len(faults)} wrong engine option(s) for transformers:", *faults]),
            hint=f"transformers knows {', '.join(sorted(TransformersOptions.model_fields))}",
        ) from error
