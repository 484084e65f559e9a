"""A chat-completions server with a script, for tests of environments: real HTTP, no model."""

from __future__ import annotations

import copy
import inspect
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from aiohttp import web

# Any: bodies and messages are JSON.
Scripted = Mapping[str, Any]
"""What the model says: a message's fields and, if it matters, a `finish_reason`."""


@dataclass(frozen=True, kw_only=True)
class ErrorReply:
    """An HTTP error in OpenAI's form."""

    status: int
    message: str = "scripted error"
    code: str | None = None
    param: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class RawReply:
    """Exactly this body."""

    body: bytes
    status: int = 200


Reply = Scripted | ErrorReply | RawReply


@dataclass(frozen=True, kw_only=True)
class ServedRequest:
    """One request as it came in."""

    path: str
    headers: Mapping[str, str]
    """Names in any case."""
    body: Mapping[str, Any]
    client_port: int
    """Tells connections apart."""


class ChatServer:
    """Answers `POST …/chat/completions` on loopback; use it as `async with`.

    The script is a list of replies, given out in order of arrival (the last one again and
    again), or a function of the request, which may be `async`: one that waits is a server
    that hangs, and is cancelled when its client leaves. Every request is kept in `requests`.
    """

    def __init__(self, script: Sequence[Reply] | Callable[[ServedRequest], Reply | Awaitable[Reply]]) -> None:
        self.requests: list[ServedRequest] = []
        self._script = script
        self._runner: web.AppRunner | None = None
        self.base_url = ""

    async def __aenter__(self) -> ChatServer:
        app = web.Application(client_max_size=2**30)
        app.router.add_post("/{prefix:.*}/chat/completions", self._answer)
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        host, port = self._runner.addresses[0][:2]
        self.base_url = f"http://{host}:{port}/v1"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        assert request.transport is not None
        served = ServedRequest(
            path=request.path,
            headers=request.headers.copy(),
            body=await request.json(),
            client_port=request.transport.get_extra_info("peername")[1],
        )
        self.requests.append(served)
        reply = self._script(served) if callable(self._script) else self._scripted(len(self.requests) - 1)
        if inspect.isawaitable(reply):
            reply = await reply
        if isinstance(reply, RawReply):
            return web.Response(body=reply.body, status=reply.status, content_type="application/json")
        if isinstance(reply, ErrorReply):
            error = {
                "error": {
                    "message": reply.message,
                    "code": reply.code,
                    "param": reply.param,
                    "type": "scripted",
                }
            }
            return web.json_response(error, status=reply.status, headers=reply.headers)
        return web.json_response(completion_body(reply, model=str(served.body.get("model"))))

    def _scripted(self, index: int) -> Reply:
        assert isinstance(self._script, Sequence)
        return self._script[min(index, len(self._script) - 1)]


def completion_body(said: Scripted, *, model: str) -> dict[str, Any]:
    """Return a chat completion with one choice; the finish reason follows from the calls unless given."""
    message = {"role": "assistant", "content": None, **copy.deepcopy(dict(said))}
    inferred = "tool_calls" if message.get("tool_calls") else "stop"
    finish_reason = message.pop("finish_reason", inferred)
    return {
        "id": "chatcmpl-scripted",
        "object": "chat.completion",
        "created": 0,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": finish_reason}],
        "usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
    }


def function_call(
    call_id: str, name: str, arguments: Mapping[str, Any] | str | None = None
) -> dict[str, Any]:
    """Return a tool call as a model makes it; a mapping becomes JSON text, text stays as it is."""
    text = json.dumps(arguments or {}) if not isinstance(arguments, str) else arguments
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": text}}
