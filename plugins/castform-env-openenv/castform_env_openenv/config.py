"""What a user can set on the environments of this plugin."""

from __future__ import annotations

import json
import math
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

PORT = "{port}"
"""Stands for the port in a command."""


class EpisodeConfig(BaseModel):
    """Which episodes there are, and how the model takes part in them."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, allow_inf_nan=False)

    train: int | list[dict[str, Any]] = 64
    """So many episodes to train on, each with a seed of its own; or the arguments of each reset."""
    eval: int | list[dict[str, Any]] = 32
    """The same for evaluation."""
    seed: int = Field(0, ge=0, lt=2**20)
    """First seed of the training episodes. Those of evaluation begin 1048576 (2**20) later."""
    max_turns: int = Field(16, ge=1, le=1000)
    """Most replies of one episode."""
    reward: Literal["sum", "last"] = "sum"
    """What the component `reward` is: the rewards of all steps together, or that of the last one."""
    sessions: int = Field(1, ge=1, le=1000)
    """Episodes at the same time. A server that nobody told otherwise has one."""
    step_seconds: float = Field(60.0, gt=0)
    """Most time for the answer to one reset or step."""
    start_seconds: float = Field(60.0, gt=0)
    """Most time until a server answers, or has a session free."""

    @field_validator("train", "eval")
    @classmethod
    def _check_episodes(cls, episodes: int | list[dict[str, Any]]) -> int | list[dict[str, Any]]:
        if isinstance(episodes, int):
            if not 1 <= episodes <= 2**20:
                raise ValueError("must be between 1 and 1048576, or a list of reset arguments")
            return episodes
        if not episodes:
            raise ValueError("must not be empty")
        _check_json(episodes)
        told = [_key(each) for each in episodes]
        if len(set(told)) < len(told):
            raise ValueError("names the same reset arguments twice")
        return episodes

    @model_validator(mode="after")
    def _check_held_out(self) -> Self:
        sides = [{_key(each) for each in side} for side in (self.train, self.eval) if isinstance(side, list)]
        if len(sides) == 2 and sides[0] & sides[1]:
            raise ValueError("eval has reset arguments that are in train too, so nothing would be held out")
        return self


class ServerConfig(EpisodeConfig):
    """A server that runs somewhere, or that is started here."""

    url: str | None = None
    """Where a server runs: http://127.0.0.1:8000."""
    command: list[str] | None = None
    """What starts one, with {port} where it takes its port: ["uvicorn", "my_env.server.app:app", "--port", "{port}"]."""
    command_env: dict[str, str] = Field(default_factory=dict)
    """Environment variables of the command, besides those of this process that are no secrets."""
    server: Literal["shared", "episode"] = "shared"
    """Whether a command starts one server for all episodes, or one for each."""
    action: Literal["text", "step", "tools"] = "text"
    """How a reply becomes an action. text: the reply is one field of it. step: a tool `step` with the server's
    action schema. tools: the tools that the server itself lists (MCP)."""
    action_field: str | None = None
    """The field, for `text`. Default: the only one that the server's schema requires."""
    action_extra: dict[str, Any] = Field(default_factory=dict)
    """Further fields of every action, for `text`."""
    observation_field: str | None = None
    """The one field of an observation that the model sees. Default: the whole observation as JSON."""
    instructions: str = "Take part in the episode. Each of your replies is one action."
    """What the model is told first."""
    solved_observation: str | None = None
    """An observation that is shown with its right reply before the episode begins: a small model needs one."""
    solved_reply: str | None = None
    """The reply to it."""

    @field_validator("action_extra")
    @classmethod
    def _check_extra(cls, extra: dict[str, Any]) -> dict[str, Any]:
        _check_json(extra)
        return extra

    @field_validator("url")
    @classmethod
    def _check_url(cls, url: str | None) -> str | None:
        if url is not None and not url.startswith(("http://", "https://")):
            raise ValueError("must begin with http:// or https://")
        return url

    @model_validator(mode="after")
    def _check_server(self) -> Self:
        if (self.url is None) == (self.command is None):
            raise ValueError("set url or command, and not both: where a server runs, or what starts one")
        if self.command is not None and PORT not in " ".join([*self.command, *self.command_env.values()]):
            raise ValueError(
                "command needs {port} in it (or in command_env), where the server takes its port"
            )
        if self.url is not None and self.server == "episode":
            raise ValueError('server = "episode" needs a command')
        if (self.solved_observation is None) != (self.solved_reply is None):
            raise ValueError("solved_observation and solved_reply are set together or not at all")
        return self


class ExampleConfig(EpisodeConfig):
    """The little server that comes with this plugin."""

    max_turns: int = Field(4, ge=1, le=1000)
    """Most replies of one episode, which has two words to repeat."""
    sessions: int = Field(64, ge=1, le=1000)
    """Episodes at the same time."""


def _key(arguments: dict[str, Any]) -> str:
    return json.dumps(arguments, sort_keys=True, default=str)


def _check_json(value: object, place: str = "") -> None:
    """Raise ValueError for a number that JSON has not, with its place: a server could not be told."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{place.removeprefix('.')} is {value}, and a server is told finite numbers only")
    if isinstance(value, dict):
        for key, item in value.items():
            _check_json(item, f"{place}.{key}")
    elif isinstance(value, list):
        for number, item in enumerate(value):
            _check_json(item, f"{place}[{number}]")
