"""The judge of a composed environment: its key is read from the environment when it is asked."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from benchmax.auth import ModelRequestContext
from benchmax.rewards.judge import Judge
from castform.compose.settings import JudgePart


@dataclass(frozen=True)
class EnvironmentVariableAuth:
    """A bearer key from an environment variable. Only its name is kept, in pickles too."""

    variable: str

    async def headers_for_request(self, context: ModelRequestContext) -> Mapping[str, str]:
        """Return the header, or none where no variable is named."""
        key = os.environ.get(self.variable, "") if self.variable else ""
        return {"Authorization": f"Bearer {key}"} if key else {}


def make_judge(part: JudgePart) -> Judge:
    """Return the judge of a section. ValueError when its key is not set or a setting makes no sense."""
    if part.api_key_env and not os.environ.get(part.api_key_env):
        raise ValueError(f"the environment variable {part.api_key_env}, which holds its key, is not set")
    return Judge(
        part.model,
        part.base_url,
        EnvironmentVariableAuth(part.api_key_env),
        timeout=part.timeout_seconds,
        max_concurrency=part.max_concurrency,
    )
