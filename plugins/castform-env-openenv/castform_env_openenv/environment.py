"""Episodes on an OpenEnv server: reset, then a step a reply, until it is done; its rewards are the reward."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmax.envs import (
    BaseEnv,
    BaseRollout,
    Dataset,
    DatasetSplit,
    Example,
    Message,
    RewardMap,
    RolloutRequest,
    Tool,
)
from benchmax.envs.dataset import validate_max_examples
from benchmax.envs.loop_local import LoopLocal
from castform_env_openenv.actions import (
    last_reply,
    make_step_tool,
    make_text_action,
    read_listed_tools,
    show_observation,
    show_tool_result,
    text_field,
)
from castform_env_openenv.config import ServerConfig
from castform_env_openenv.protocol import (
    InvalidActionError,
    Json,
    Observed,
    Session,
    fetch_action_schema,
    open_session,
)
from castform_env_openenv.server import run_server

EVAL_SEED_OFFSET = 2**20
OVER = "The episode is over."


@dataclass(kw_only=True)
class Episode:
    """One rollout's session and what came of it so far."""

    session: Session
    schema: Json | None
    """Of an action, where the server publishes it."""
    tools: Sequence[Tool] = ()
    rewards: list[float] = field(default_factory=list)
    """Of the steps that had one."""
    done: bool = False

    def take(self, observed: Observed) -> Observed:
        """Note what a step came to."""
        if observed.reward is not None:
            self.rewards.append(observed.reward)
        self.done = observed.done
        return observed


_running: ContextVar[Episode] = ContextVar("castform_env_openenv_episode")
"""The episode of the rollout that runs here."""


class SharedServer:
    """The one server of an event loop, started by whoever needs it first."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._stack = AsyncExitStack()
        self._url: str | None = None

    async def url(self, config: ServerConfig) -> str:
        """Return where it runs. RolloutFailure: it cannot be started; the next one tries again."""
        async with self._lock:
            if self._url is None:
                self._url = await self._stack.enter_async_context(_run(config))
            return self._url

    async def aclose(self) -> None:
        """End it."""
        async with self._lock:
            self._url = None
            await self._stack.aclose()


class OpenEnv(BaseEnv):
    """A server's episodes. Each rollout has a session of its own, left when it ends, however it ends."""

    def __init__(self, config: ServerConfig) -> None:
        super().__init__(max_turns=config.max_turns)
        self.config = config
        self.max_concurrent_rollouts = config.sessions
        self._shared: LoopLocal[SharedServer] = LoopLocal(SharedServer)

    async def create_dataset(
        self, split: DatasetSplit, base_dir: Path, *, max_examples: int | None = None
    ) -> Dataset[Mapping[str, Any]]:
        validate_max_examples(max_examples)
        return Dataset([self._make_example(each) for each in self._resets(split)[:max_examples]])

    def _resets(self, split: DatasetSplit) -> list[dict[str, Any]]:
        episodes = self.config.train if split == "train" else self.config.eval
        if isinstance(episodes, list):
            return episodes
        first = self.config.seed + (EVAL_SEED_OFFSET if split == "eval" else 0)
        return [{"seed": seed} for seed in range(first, first + episodes)]

    def _make_example(self, reset: Json) -> Example[Mapping[str, Any]]:
        told = json.dumps(reset, sort_keys=True, default=str)
        seed = reset.get("seed")
        named = set(reset) == {"seed"} and isinstance(seed, int)
        id = f"seed-{seed}" if named else hashlib.sha256(told.encode()).hexdigest()[:16]
        messages = [{"role": "system", "content": self.config.instructions}]
        if self.config.solved_observation is not None:
            messages += [
                {"role": "user", "content": self.config.solved_observation},
                {"role": "assistant", "content": self.config.solved_reply or ""},
            ]
        return Example(id=id, payload={"prompt_messages": messages, "reset": dict(reset)})

    async def run_rollout(self, request: RolloutRequest[Mapping[str, Any]]) -> BaseRollout:
        """Begin an episode, put its first observation into the prompt, and play it."""
        payload = request.example.payload
        async with self._open_episode(payload["reset"]) as (episode, first):
            shown = {
                "role": "user",
                "content": show_observation(first.observation, self.config.observation_field),
            }
            example: Example[Mapping[str, Any]] = Example(
                request.example.id,
                {**payload, "prompt_messages": [*payload["prompt_messages"], shown]},
            )
            token = _running.set(episode)
            try:
                return await super().run_rollout(replace(request, example=example))
            finally:
                _running.reset(token)

    @asynccontextmanager
    async def _open_episode(self, reset: Json) -> AsyncIterator[tuple[Episode, Observed]]:
        config = self.config
        async with AsyncExitStack() as stack:
            if config.url is not None:
                url = config.url.rstrip("/")
            elif config.server == "shared":
                url = await self._shared.get().url(config)
            else:
                url = await stack.enter_async_context(_run(config))
            session, first = await stack.enter_async_context(
                open_session(
                    url,
                    start_seconds=config.start_seconds,
                    step_seconds=config.step_seconds,
                    arguments=reset,
                )
            )
            schema = None
            if config.action != "tools":
                schema = await fetch_action_schema(url, seconds=config.step_seconds)
            episode = Episode(session=session, schema=schema, done=first.done)
            if config.action == "text":
                text_field(schema, config.action_field)  # before the model is asked anything
            elif config.action == "step":
                episode.tools = [make_step_tool(schema)]
            else:
                episode.tools = read_listed_tools((await session.step({"type": "list_tools"})).observation)
            yield episode, first

    async def next_messages(self, rollout: BaseRollout) -> Sequence[Message] | None:
        """Take the reply as an action and return the observation; None when the episode is over."""
        episode = _running.get()
        if self.config.action != "text" or episode.done:
            return None
        name = text_field(episode.schema, self.config.action_field)
        try:
            action = make_text_action(
                last_reply(rollout.messages), name, episode.schema, self.config.action_extra
            )
            observed = episode.take(await episode.session.step(action))
        except (ValueError, InvalidActionError) as error:
            return [{"role": "user", "content": str(error)}]
        if observed.done:
            return None
        return [
            {"role": "user", "content": show_observation(observed.observation, self.config.observation_field)}
        ]

    async def list_tools(self) -> Sequence[Tool]:
        """Return the tools of the episode that runs here."""
        return _running.get().tools

    async def run_tool(self, rollout_id: str, tool_name: str, /, **arguments: Any) -> object:
        """Take a call as an action and return the observation as text; what is wrong with it, for the model."""
        episode = _running.get()
        if episode.done:
            return OVER
        calls_server = self.config.action == "tools"
        action: Json = arguments
        if calls_server:
            action = {"type": "call_tool", "tool_name": tool_name, "arguments": arguments}
        try:
            observed = episode.take(await episode.session.step(action))
        except InvalidActionError as error:
            return f"Error: {error}"
        if calls_server:
            shown = show_tool_result(observed.observation)
        else:
            shown = show_observation(observed.observation, self.config.observation_field)
        return f"{shown}\n{OVER}" if observed.done else shown

    async def compute_reward(self, rollout: BaseRollout) -> RewardMap:
        """Return the server's rewards as one component; 0 where it gave none."""
        rewards = _running.get().rewards or [0.0]
        return {"reward": sum(rewards) if self.config.reward == "sum" else rewards[-1]}

    async def aclose(self) -> None:
        server = self._shared.pop()
        if server is not None:
            await server.aclose()
        await super().aclose()


def make_server(config: ServerConfig) -> OpenEnv:
    return OpenEnv(config)


def _run(config: ServerConfig) -> AbstractAsyncContextManager[str]:
    return run_server(config.command or (), extra_env=config.command_env, start_seconds=config.start_seconds)
