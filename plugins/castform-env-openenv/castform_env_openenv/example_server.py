"""A little server that speaks OpenEnv's protocol: `python example_server.py PORT`.

An episode has two rounds. In each the model is told to say two words and gets half a point for
saying exactly those. Run as a file: it imports nothing of ours.
"""

from __future__ import annotations

import json
import random
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aiohttp import web

ROUNDS = 2
ADJECTIVES = [
    "green",
    "small",
    "quiet",
    "old",
    "warm",
    "round",
    "bright",
    "heavy",
    "empty",
    "early",
    "late",
    "soft",
    "sharp",
    "clean",
    "dry",
    "deep",
    "flat",
    "plain",
    "rough",
    "smooth",
    "narrow",
    "wide",
    "golden",
    "silver",
    "wooden",
    "broken",
    "hidden",
    "frozen",
    "gentle",
    "simple",
]
NOUNS = [
    "river",
    "stone",
    "lamp",
    "cloud",
    "paper",
    "apple",
    "garden",
    "window",
    "bridge",
    "candle",
    "forest",
    "island",
    "kettle",
    "ladder",
    "mirror",
    "needle",
    "orchard",
    "pencil",
    "ribbon",
    "saddle",
    "table",
    "valley",
    "wagon",
    "anchor",
    "basket",
    "button",
    "carpet",
    "feather",
    "hammer",
    "lantern",
]
SCHEMA = {
    "action": {
        "title": "SayAction",
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "metadata": {"type": "object", "additionalProperties": True},
            "message": {"type": "string", "description": "What is said."},
        },
        "required": ["message"],
    },
    "observation": {"type": "object", "properties": {"prompt": {"type": "string"}}},
    "state": {"type": "object", "properties": {"step_count": {"type": "integer"}}},
}


def list_phrases(seed: int) -> list[str]:
    """Return what has to be said in the episode of a seed, round by round."""
    rng = random.Random(f"castform-env-openenv:{seed}")
    return [f"{rng.choice(ADJECTIVES)} {rng.choice(NOUNS)}" for _ in range(ROUNDS)]


class Words:
    """One session's episode."""

    def __init__(self) -> None:
        self.phrases: list[str] = []
        self.step_count = 0

    def reset(self, seed: int | None = None) -> dict[str, Any]:
        self.phrases, self.step_count = list_phrases(seed or 0), 0
        return self._observation(None)

    def step(self, message: str) -> dict[str, Any]:
        if self.step_count >= len(self.phrases):
            raise RuntimeError("the episode is over or has not begun")
        said = message.strip().strip('.!"').casefold()
        reward = 1 / ROUNDS if said == self.phrases[self.step_count] else 0.0
        self.step_count += 1
        return self._observation(reward)

    def _observation(self, reward: float | None) -> dict[str, Any]:
        done = self.step_count >= len(self.phrases)
        prompt = "" if done else f"Say: {self.phrases[self.step_count]}"
        return {"observation": {"prompt": prompt, "metadata": {}}, "reward": reward, "done": done}


def answer_frame(words: Words, text: str) -> dict[str, Any] | None:
    """Return the frame that answers one; None ends the session."""
    try:
        frame = json.loads(text)
        kind, data = frame.get("type"), frame.get("data") or {}
        if kind == "close":
            return None
        if kind == "reset":
            return {"type": "observation", "data": words.reset(data.get("seed"))}
        if kind == "state":
            return {"type": "state", "data": {"step_count": words.step_count}}
        if kind != "step":
            return _error("UNKNOWN_TYPE", f"Unknown message type: {kind}")
        if not isinstance(data.get("message"), str) or set(data) - {"message", "metadata"}:
            faults = [{"loc": ["message"], "msg": "Input should be a valid string, and the only field"}]
            return _error("VALIDATION_ERROR", "Invalid message", errors=faults)
        return {"type": "observation", "data": words.step(data["message"])}
    except ValueError as error:
        return _error("INVALID_JSON", f"Invalid JSON: {error}")
    except Exception as error:  # noqa: BLE001 - as any server of this protocol: the session goes on
        return _error("EXECUTION_ERROR", str(error))


def _error(code: str, message: str, **more: Any) -> dict[str, Any]:
    return {"type": "error", "data": {"code": code, "message": message, **more}}


async def _socket(request: web.Request) -> web.WebSocketResponse:
    from aiohttp import WSMsgType, web

    socket = web.WebSocketResponse(max_msg_size=1 << 20)
    await socket.prepare(request)
    words = Words()
    async for message in socket:
        if message.type is not WSMsgType.TEXT:
            continue
        answer = answer_frame(words, message.data)
        if answer is None:
            break
        await socket.send_json(answer)
    await socket.close()
    return socket


def make_app() -> web.Application:
    """Return the server as an aiohttp application."""
    from aiohttp import web

    async def health(request: web.Request) -> web.Response:
        return web.json_response({"status": "healthy"})

    async def schema(request: web.Request) -> web.Response:
        return web.json_response(SCHEMA)

    app = web.Application()
    app.add_routes([web.get("/health", health), web.get("/schema", schema), web.get("/ws", _socket)])
    return app


def main() -> None:
    """Serve on the loopback until the process is ended."""
    from aiohttp import web

    web.run_app(make_app(), host="127.0.0.1", port=int(sys.argv[1]), print=None)


if __name__ == "__main__":
    main()
