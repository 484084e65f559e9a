"""ATIF, the format in which agents keep what was said and done: versions 1.0 to 1.8, checked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from castform.errors import UsageError

MAX_ATIF_BYTES = 512 << 20
VERSIONS = tuple(f"ATIF-v1.{minor}" for minor in range(9))
LATEST = VERSIONS[-1]

Extra = dict[str, Any] | None  # Any: free form, the producer's


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class Agent(_Part):
    name: str
    version: str
    model_name: str | None = None
    tool_definitions: list[dict[str, Any]] | None = None
    """In OpenAI's form."""
    extra: Extra = None


class Source(_Part):
    """An image or a sound, by its place."""

    media_type: str = Field(pattern=r"^(image|audio)/")
    path: str
    duration_sec: float | None = Field(None, ge=0)


class ContentPart(_Part):
    type: Literal["text", "image", "audio"]
    text: str | None = None
    source: Source | None = None

    @model_validator(mode="after")
    def _check_kind(self) -> ContentPart:
        if self.type == "text":
            if self.text is None or self.source is not None:
                raise ValueError("a text part has text and no source")
        elif self.source is None or self.text is not None or not self.source.media_type.startswith(self.type):
            raise ValueError(f"an {self.type} part has a source of that type and no text")
        return self


class ToolCall(_Part):
    tool_call_id: str
    function_name: str
    arguments: dict[str, Any]
    extra: Extra = None


class SubagentTrajectoryRef(_Part):
    trajectory_id: str | None = None
    session_id: str | None = None
    trajectory_path: str | None = None
    extra: Extra = None


class ObservationResult(_Part):
    source_call_id: str | None = None
    content: str | list[ContentPart] | None = None
    subagent_trajectory_ref: list[SubagentTrajectoryRef] | None = None
    extra: Extra = None


class Observation(_Part):
    results: list[ObservationResult]


class Metrics(_Part):
    """Of one model call."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    cost_usd: float | None = None
    prompt_token_ids: list[int] | None = None
    completion_token_ids: list[int] | None = None
    logprobs: list[float] | None = None
    """Natural logs, one a completion token."""
    extra: Extra = None


class Step(_Part):
    step_id: int = Field(ge=1)
    timestamp: str | None = None
    source: Literal["system", "user", "agent"]
    model_name: str | None = None
    reasoning_effort: str | float | None = None
    message: str | list[ContentPart]
    reasoning_content: str | None = None
    tool_calls: list[ToolCall] | None = None
    observation: Observation | None = None
    metrics: Metrics | None = None
    is_copied_context: bool | None = None
    llm_call_count: int | None = Field(None, ge=0)
    extra: Extra = None

    @field_validator("timestamp")
    @classmethod
    def _check_timestamp(cls, value: str | None) -> str | None:
        if value is not None:
            datetime.fromisoformat(value.replace("Z", "+00:00"))
        return value

    @model_validator(mode="after")
    def _check_agent_fields(self) -> Step:
        agents_own = ("model_name", "reasoning_effort", "reasoning_content", "tool_calls", "metrics")
        given = [name for name in agents_own if getattr(self, name) is not None]
        if self.source != "agent" and given:
            raise ValueError(f"{given[0]} is for steps of the agent, and this one is the {self.source}'s")
        if self.llm_call_count == 0 and (self.metrics or self.reasoning_content) and self.source == "agent":
            raise ValueError("a step without a model call has neither metrics nor reasoning_content")
        return self


class FinalMetrics(_Part):
    total_prompt_tokens: int | None = None
    total_completion_tokens: int | None = None
    total_cached_tokens: int | None = None
    total_cost_usd: float | None = None
    total_steps: int | None = Field(None, ge=0)
    extra: Extra = None


class Trajectory(_Part):
    """One document. `subagent_trajectories` holds whole ones of their own."""

    schema_version: str = LATEST
    session_id: str | None = None
    trajectory_id: str | None = None
    agent: Agent
    steps: list[Step] = Field(min_length=1)
    notes: str | None = None
    final_metrics: FinalMetrics | None = None
    continued_trajectory_ref: str | None = None
    extra: Extra = None
    subagent_trajectories: list[Trajectory] | None = None

    @model_validator(mode="after")
    def _check_whole(self) -> Trajectory:
        if self.schema_version not in VERSIONS:
            raise ValueError(f"schema_version is {self.schema_version!r}, not {VERSIONS[0]} to {LATEST}")
        for place, step in enumerate(self.steps, 1):
            if step.step_id != place:
                raise ValueError(f"steps[{place - 1}].step_id is {step.step_id}; they count from 1")
            calls = {call.tool_call_id for call in step.tool_calls or ()}
            for result in step.observation.results if step.observation else ():
                if result.source_call_id is not None and result.source_call_id not in calls:
                    raise ValueError(
                        f"step {place} observes {result.source_call_id!r}, which it did not call"
                    )
        ids = [sub.trajectory_id for sub in self.subagent_trajectories or ()]
        if None in ids or len(set(ids)) != len(ids):
            raise ValueError("each of subagent_trajectories needs a trajectory_id of its own")
        return self

    def as_document(self) -> dict[str, Any]:
        """Return it as JSON values, without what is not set."""
        return self.model_dump(mode="json", exclude_none=True)

    def walk(self) -> Iterator[Trajectory]:
        """Return it and every trajectory within."""
        yield self
        for sub in self.subagent_trajectories or ():
            yield from sub.walk()


def read_atif(path: Path) -> Trajectory:
    """Read a file. UsageError: it cannot be read, is no JSON, or not ATIF 1.0 to 1.8; the message says where."""
    try:
        if path.stat().st_size > MAX_ATIF_BYTES:
            raise UsageError(f"{path} is larger than {MAX_ATIF_BYTES >> 20} MiB")
        return parse_atif(json.loads(path.read_text(encoding="utf-8")), where=str(path))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is no JSON: {error}") from error


def parse_atif(document: object, *, where: str) -> Trajectory:
    """Return a checked trajectory. UsageError lists everything that is wrong."""
    try:
        return Trajectory.model_validate(document)
    except ValidationError as error:
        faults = [
            f"{'.'.join(map(str, item['loc'])) or 'the document'}: {item['msg'].removeprefix('Value error, ')}"
            for item in error.errors(include_url=False, include_input=False)
        ]
        raise UsageError("\n  ".join([f"{where} is no ATIF trajectory:", *faults[:20]])) from error


def write_atif(trajectory: Trajectory, path: Path) -> None:
    """Write a file, whole or not at all. Half a character, as a model may say it, is written as its escape."""
    text = json.dumps(trajectory.as_document(), ensure_ascii=False, indent=1)
    fresh = path.with_name(f".{path.name}.new")
    fresh.write_bytes(text.encode("utf-8", "backslashreplace"))
    fresh.replace(path)
