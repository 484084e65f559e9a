"""The types that an environment and its host exchange."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeAlias, TypedDict, TypeVar

from benchmax.auth import ModelAuth, check_model_auth
from benchmax.envs.reward_values import RewardMap, check_rewards
from benchmax.envs.termination import FINISHED

# Any: rows and chat messages are JSON of the author's own making.
JsonRow: TypeAlias = dict[str, Any]
"""One decoded line of a JSONL file."""
Message: TypeAlias = dict[str, Any]
"""One chat message in OpenAI's form."""
Messages: TypeAlias = list[Message]

DatasetSplit = Literal["train", "eval"]
SPLITS = ("train", "eval")

PayloadT = TypeVar("PayloadT")


class ToolFunction(TypedDict, total=False):
    """The function of a tool: `name`, `description`, and `parameters` as a JSON schema of an object."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    strict: bool


class Tool(TypedDict):
    """A tool in OpenAI's form: `{"type": "function", "function": {...}}`."""

    type: str
    function: ToolFunction


@dataclass(frozen=True)
class Example(Generic[PayloadT]):
    """One row of a dataset: an id that is stable between machines, and what the environment needs."""

    id: str
    payload: PayloadT

    def __post_init__(self) -> None:
        check_text("example id", self.id)


@dataclass(frozen=True)
class RolloutRequest(Generic[PayloadT]):
    """One attempt to make: at which example, and through which model endpoint."""

    rollout_id: str
    example: Example[PayloadT]
    model: str
    base_url: str
    """OpenAI-compatible, usually ending in /v1."""
    model_auth: ModelAuth = field(repr=False)
    split: DatasetSplit = "train"

    def __post_init__(self) -> None:
        for name in ("rollout_id", "model", "base_url"):
            check_text(name, getattr(self, name))
        check_model_auth(self.model_auth)
        if self.split not in SPLITS:
            raise ValueError(f"split must be 'train' or 'eval', not {self.split!r}")


@dataclass(frozen=True, kw_only=True)
class RolloutAttempt:
    """What an environment reports about one attempt, before the group is scored.

    `rewards` None waits for group scoring; `error` says what went wrong, if anything did.
    """

    rollout_id: str
    termination_reason: str
    rewards: RewardMap | None = None
    error: str | None = None

    def __post_init__(self) -> None:
        check_text("rollout_id", self.rollout_id)
        check_text("termination_reason", self.termination_reason)
        if self.rewards is not None:
            object.__setattr__(self, "rewards", check_rewards(self.rewards))
        if self.error is not None:
            check_text("error", self.error)


@dataclass(frozen=True)
class RolloutOutcome:
    """What is left of an attempt once its group is scored. Without rewards it was not scored at all."""

    rewards: RewardMap
    termination_reason: str
    error: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "rewards", check_rewards(self.rewards))
        check_text("termination_reason", self.termination_reason)
        if self.error is not None:
            check_text("error", self.error)


class RolloutFailure(RuntimeError):  # noqa: N818 - the contract's name
    """Raise it inside an environment to end this rollout with a reason; its siblings go on."""

    def __init__(self, termination_reason: str, message: str) -> None:
        check_text("termination_reason", termination_reason)
        check_text("message", message)
        if termination_reason == FINISHED:
            raise ValueError("a failure cannot have the reason 'finished'")
        super().__init__(message)
        self.termination_reason = termination_reason
        self.message = message

    def __reduce__(self) -> tuple[type[RolloutFailure], tuple[str, str]]:
        return type(self), (self.termination_reason, self.message)


@dataclass(frozen=True)
class ValidationDiagnostic:
    """Something an environment knows to be wrong, or doubtful, with its own set-up."""

    severity: Literal["warning", "error"]
    code: str
    message: str
    location: str | None = None

    def __post_init__(self) -> None:
        if self.severity not in ("warning", "error"):
            raise ValueError(f"severity must be 'warning' or 'error', not {self.severity!r}")
        check_text("code", self.code)
        check_text("message", self.message)


def check_text(name: str, value: object) -> str:
    """Return the value when it is text with something in it. ValueError otherwise."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{name} must be a non-empty string")
    return value
