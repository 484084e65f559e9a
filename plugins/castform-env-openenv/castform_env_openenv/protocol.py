"""One episode on an OpenEnv server, over the WebSocket that keeps its session.

Frames are JSON: `{"type": "reset" | "step" | "close", "data": …}` there, `{"type":
"observation", "data": {"observation", "reward", "done"}}` or `{"type": "error", "data":
{"message", "code"}}` back. The HTTP endpoints /reset and /step make a new environment for
every request, so they are not used. A fault of the server is a RolloutFailure.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmax.envs import RolloutFailure

if TYPE_CHECKING:
    from aiohttp import ClientSession, ClientWebSocketResponse

MAX_FRAME_BYTES = 16 << 20
MAX_ERROR_CHARS = 500
BUSY = "CAPACITY_REACHED"
BUSY_PAUSE_SECONDS = 0.1
INVALID = "VALIDATION_ERROR"

Json = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Observed:
    """What a reset or a step came to."""

    observation: Json
    reward: float | None
    """None where the server gives none."""
    done: bool


class InvalidActionError(Exception):
    """The server did not take an action; the text says why, for the model."""


class BusyError(Exception):
    """The server has no session free."""


class Session:
    """One session, which is one episode at a time."""

    def __init__(self, socket: ClientWebSocketResponse, *, step_seconds: float) -> None:
        self._socket = socket
        self._step_seconds = step_seconds

    async def reset(self, arguments: Json) -> Observed:
        """Begin an episode. BusyError: the server has no session free. RolloutFailure: anything else."""
        try:
            return _read_observed(await self._ask("reset", arguments))
        except InvalidActionError as error:
            raise RolloutFailure(
                "sandbox_error", f"the server refuses to reset with {json.dumps(arguments)}: {error}"
            ) from error

    async def step(self, action: Json) -> Observed:
        """Take one action. InvalidActionError: it does not fit; RolloutFailure: the server failed."""
        return _read_observed(await self._ask("step", action))

    async def _ask(self, kind: str, data: Json) -> Json:
        from aiohttp import ClientError, WSMsgType

        try:
            async with asyncio.timeout(self._step_seconds):
                with suppress(
                    ConnectionError
                ):  # it may have closed after a word of its own, which is read below
                    await self._socket.send_json({"type": kind, "data": dict(data)})
                message = await self._socket.receive()
        except TimeoutError as error:
            late = f"the server did not answer a {kind} within {self._step_seconds:g} seconds"
            raise RolloutFailure("tool_error" if kind == "step" else "sandbox_error", late) from error
        except (ClientError, ConnectionError, RuntimeError) as error:
            raise RolloutFailure("sandbox_error", f"the connection broke at a {kind}: {error}") from error
        if message.type is not WSMsgType.TEXT:
            raise RolloutFailure("sandbox_error", f"the server closed the session at a {kind}")
        return _read_frame(message.data, kind)


@asynccontextmanager
async def open_session(
    url: str, *, start_seconds: float, step_seconds: float, arguments: Json
) -> AsyncIterator[tuple[Session, Observed]]:
    """Connect, reset, and leave the session in any case at the end.

    While the server is at its capacity it is asked again. RolloutFailure (`sandbox_error`): it
    cannot be reached, or has no session free in time.
    """
    from aiohttp import ClientError, ClientSession, ClientTimeout

    deadline = asyncio.get_running_loop().time() + start_seconds
    async with ClientSession(timeout=ClientTimeout(total=None, sock_connect=start_seconds)) as http:
        while True:
            try:
                socket = await _connect(http, url)
            except (ClientError, OSError, TimeoutError) as error:
                raise RolloutFailure("sandbox_error", f"no session at {url}: {error}") from error
            session = Session(socket, step_seconds=step_seconds)
            try:
                first = await session.reset(arguments)
            except BusyError as error:
                await socket.close()
                if asyncio.get_running_loop().time() > deadline:
                    raise RolloutFailure(
                        "sandbox_error", f"the server at {url} stays busy: {error}"
                    ) from error
                await asyncio.sleep(BUSY_PAUSE_SECONDS)
                continue
            except BaseException:
                await socket.close()
                raise
            break
        try:
            yield session, first
        finally:
            await asyncio.shield(_leave(socket))


async def fetch_action_schema(url: str, *, seconds: float) -> Json | None:
    """Return the JSON schema of the server's actions, None where it publishes none.

    RolloutFailure (`sandbox_error`): the server cannot be reached.
    """
    from aiohttp import ClientError, ClientSession, ClientTimeout

    try:
        async with (
            ClientSession(timeout=ClientTimeout(total=seconds)) as http,
            http.get(f"{url}/schema") as response,
        ):
            if response.status != 200:
                return None
            data = json.loads(await response.content.read(MAX_FRAME_BYTES))
    except (ClientError, OSError, TimeoutError) as error:
        raise RolloutFailure("sandbox_error", f"no schema from {url}: {error}") from error
    except ValueError:
        return None
    schema = data.get("action") if isinstance(data, dict) else None
    return schema if isinstance(schema, dict) else None


async def _connect(http: ClientSession, url: str) -> ClientWebSocketResponse:
    return await http.ws_connect(f"{url}/ws", max_msg_size=MAX_FRAME_BYTES)


async def _leave(socket: ClientWebSocketResponse) -> None:
    """Say goodbye, so that the server has its session free; it may be gone already."""
    from aiohttp import ClientError

    with suppress(ClientError, ConnectionError, RuntimeError):
        await socket.send_json({"type": "close"})
    await socket.close()


def _read_frame(text: str, kind: str) -> Json:
    """Return the data of an observation frame; what an error frame means is raised."""
    try:
        frame = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RolloutFailure(
            "sandbox_error", f"the server answered a {kind} with no JSON: {text[:80]!r}"
        ) from error
    data = frame.get("data") if isinstance(frame, dict) else None
    if not isinstance(data, dict):
        raise RolloutFailure("sandbox_error", f"the server answered a {kind} with {text[:80]!r}")
    if frame.get("type") == "observation":
        return data
    code, message = str(data.get("code")), str(data.get("message"))[:MAX_ERROR_CHARS]
    if code == BUSY:
        raise BusyError(message)
    if code == INVALID:
        raise InvalidActionError(_describe_faults(data.get("errors")) or message)
    reason = "tool_error" if kind == "step" else "sandbox_error"
    raise RolloutFailure(reason, f"the server failed at a {kind}: {message} ({code})")


def _describe_faults(errors: object) -> str:
    """Return pydantic's list of what is wrong with an action in a line; empty when it is none."""
    if not isinstance(errors, list):
        return ""
    faults = [
        f"{'.'.join(map(str, each.get('loc', ())))}: {each.get('msg')}"
        for each in errors
        if isinstance(each, dict)
    ]
    return "; ".join(faults)[:MAX_ERROR_CHARS]


def _read_observed(data: Json) -> Observed:
    """RolloutFailure: `reward_error` for a reward that is no finite number, `sandbox_error` for no observation."""
    observation, reward = data.get("observation"), data.get("reward")
    if not isinstance(observation, dict):
        raise RolloutFailure("sandbox_error", f"the server sent no observation but {str(data)[:80]}")
    if reward is not None:
        if not isinstance(reward, (bool, int, float)) or not math.isfinite(reward):
            raise RolloutFailure("reward_error", f"the server gave the reward {reward!r}, no finite number")
        reward = float(reward)
    return Observed(observation=observation, reward=reward, done=data.get("done") is True)
