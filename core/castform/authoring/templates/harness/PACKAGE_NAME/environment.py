"""An agent program as an environment: it runs beside the trainer and talks to the model by itself."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from benchmax.auth import ModelRequestContext, request_headers
from benchmax.envs import (
    Dataset,
    DatasetSplit,
    Environment,
    Example,
    JsonlDataset,
    JsonRow,
    RolloutAttempt,
    RolloutFailure,
    RolloutRequest,
)
from benchmax.rewards import match_answer
from pydantic import BaseModel, ConfigDict, Field

from PACKAGE_NAME.program import Finished, run_program

PACKAGE = files("PACKAGE_NAME")
DATA = PACKAGE / "data"
"""Inside the package, so that it is in the wheel."""
REASONS = {0: "finished", 3: "model_error", 4: "max_turns_exceeded"}
"""What the agent's exit codes mean. Every other one is a fault of the agent itself."""
Row = Mapping[str, Any]


class WithAgentConfig(BaseModel):
    """What a user can set, as in `--set environment.args.agent_timeout_seconds=600`."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True
    )

    agent_timeout_seconds: float = Field(120.0, gt=0)
    """Most seconds for one run of the agent; then it is killed and the rollout has failed."""


class WithAgent(Environment[Row, RolloutAttempt]):
    """Gives a task to the agent and compares what it answers.

    Whatever the agent makes the model say goes through the endpoint of its rollout, so
    all of it is recorded and can be trained on, and nothing of the agent has to change.
    """

    max_concurrent_rollouts = 8

    def __init__(self, config: WithAgentConfig) -> None:
        self.config = config

    async def create_dataset(
        self, split: DatasetSplit, base_dir: Path, *, max_examples: int | None = None
    ) -> Dataset[Row]:
        with as_file(DATA / f"{split}.jsonl") as path:
            return JsonlDataset(
                path, row_to_example=make_example, max_examples=max_examples
            )

    async def run_rollout(self, request: RolloutRequest[Row]) -> RolloutAttempt:
        finished = await self.run_agent(request)
        reason = REASONS.get(finished.code, "harness_error")
        if reason not in self.scorable_termination_reasons:
            raise RolloutFailure(
                reason,
                f"the agent ended with {finished.code}: {finished.errors[-500:]}",
            )
        return RolloutAttempt(
            rollout_id=request.rollout_id,
            termination_reason=reason,
            rewards={
                "correct": match_answer(
                    finished.output, request.example.payload["ground_truth"]
                )
            },
        )

    async def run_agent(self, request: RolloutRequest[Row]) -> Finished:
        """Run the agent against the endpoint of this rollout, with no other part of our environment."""
        context = ModelRequestContext(
            request.base_url, request.model, request.rollout_id
        )
        headers = await request_headers(request.model_auth, context)
        with as_file(PACKAGE / "agent.py") as agent:
            return await run_program(
                [sys.executable, "-I", str(agent)],
                text=request.example.payload["task"],
                env={
                    "PATH": os.defpath,
                    "OPENAI_BASE_URL": request.base_url,
                    "OPENAI_API_KEY": headers["Authorization"].removeprefix("Bearer "),
                    "OPENAI_MODEL": request.model,
                },
                timeout_seconds=self.config.agent_timeout_seconds,
            )

    def gold(self, example: Example[Row]) -> str:
        """Return a reply that must be paid in full: checks play it, and wrong ones beside it."""
        return f"<answer>{example.payload['ground_truth']}</answer>"


def make_example(row: JsonRow) -> Example[Row]:
    """Return a row; only `task` is given to the agent."""
    return Example(
        id=row["id"], payload={"task": row["task"], "ground_truth": row["answer"]}
    )
