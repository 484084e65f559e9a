"""What a user can set, and the judge that follows from it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from benchmax.auth import ModelRequestContext
from benchmax.rewards.judge import Judge
from pydantic import BaseModel, ConfigDict


class ExplainConfig(BaseModel):
    """Which model judges, as in `--set environment.args.judge_model=...`."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True
    )

    judge_base_url: str = ""
    """OpenAI-compatible, usually ending in /v1. Empty: nobody judges the explanations."""
    judge_model: str = "judge"
    judge_key_variable: str = "JUDGE_API_KEY"
    """Name of the environment variable that holds the judge's key."""


@dataclass(frozen=True)
class KeyInVariable:
    """Reads the key for each request: environments are stored and sent, and keys should not be."""

    variable: str

    async def headers_for_request(
        self, context: ModelRequestContext
    ) -> Mapping[str, str]:
        """Return the bearer header. KeyError: the variable is not set."""
        return {"Authorization": f"Bearer {os.environ[self.variable]}"}


def make_judge(config: ExplainConfig) -> Judge | None:
    """Return the judge, or None where there is none."""
    if not config.judge_base_url:
        return None
    return Judge(
        config.judge_model,
        config.judge_base_url,
        KeyInVariable(config.judge_key_variable),
    )
