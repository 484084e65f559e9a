"""An environment written with openenv's own classes and served by it: `python real_server.py PORT KIND SESSIONS`."""

from __future__ import annotations

import sys
from typing import Any

import uvicorn
from fastmcp import FastMCP
from openenv.core.env_server import (
    Action,
    CallToolAction,
    CallToolObservation,
    Environment,
    MCPEnvironment,
    Observation,
    State,
    create_app,
)
from pydantic import Field


class GuessAction(Action):
    """Guess the number."""

    number: int = Field(ge=0, le=100)


class GuessObservation(Observation):
    hint: str = ""


class GuessEnvironment(Environment[GuessAction, GuessObservation, State]):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        super().__init__()
        self._state = State()
        self.secret = 0

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any
    ) -> GuessObservation:
        self.secret = (seed or 0) % 101
        self._state = State(episode_id=episode_id, step_count=0)
        return GuessObservation(hint="guess")

    def step(self, action: GuessAction, timeout_s: float | None = None, **kwargs: Any) -> GuessObservation:
        self._state.step_count += 1
        if action.number == 13:
            raise RuntimeError("unlucky")
        if action.number == self.secret:
            return GuessObservation(hint="right", done=True, reward=1.0)
        return GuessObservation(hint="higher" if action.number < self.secret else "lower", reward=-0.1)

    @property
    def state(self) -> State:
        return self._state


class ToolEnvironment(MCPEnvironment):
    def __init__(self) -> None:
        server = FastMCP("tools")

        @server.tool
        def shout(text: str) -> str:
            """Say it loudly."""
            return text.upper()

        super().__init__(server)
        self._state = State()

    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> Observation:
        return Observation(metadata={"ready": True})

    def _step_impl(self, action: Action, timeout_s: float | None = None, **kwargs: Any) -> Observation:
        raise ValueError("only tools here")

    @property
    def state(self) -> State:
        return self._state


def main() -> None:
    port, kind, sessions = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    if kind == "tools":
        app = create_app(ToolEnvironment, CallToolAction, CallToolObservation)
    else:
        app = create_app(GuessEnvironment, GuessAction, GuessObservation, max_concurrent_envs=sessions)
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning")


if __name__ == "__main__":
    main()
