"""A chat-completions server with a script, for tests of environments: real HTTP, no model."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import TracebackType

from aiohttp import web

from benchmax.testing.delivery import error_response, raw_response, send_completion
from benchmax.testing.replies import (
    Answer,
    Fault,
    RawReply,
    Reply,
    ScriptedRequest,
    make_choices,
    make_reply,
)

NO_USAGE = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}


class ChatServer:
    """Answers `POST …/chat/completions` on loopback, in the running event loop; use it as `async with`.

    The script is a list of answers, given out in order of arrival (the last one again and
    again), or a function of the request, which may be `async`: one that waits is a server
    that hangs, and is cancelled when its client leaves. A message is sent as it is, its
    `finish_reason` aside. Every request is kept in `requests`.
    """

    def __init__(
        self, script: Sequence[Answer] | Callable[[ScriptedRequest], Answer | Awaitable[Answer]]
    ) -> None:
        self.requests: list[ScriptedRequest] = []
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

    async def _answer(self, http: web.Request) -> web.StreamResponse:
        assert http.transport is not None
        body = await http.json()
        asked = [
            ScriptedRequest(
                index=len(self.requests),
                choice=choice,
                path=http.path,
                headers=http.headers.copy(),
                body=body,
                client_port=http.transport.get_extra_info("peername")[1],
            )
            for choice in range(int(body.get("n") or 1))
        ]
        self.requests.append(asked[0])
        replies: list[Reply] = []
        for request in asked:
            answer = await self._ask(request)
            if answer.latency_seconds:
                await asyncio.sleep(answer.latency_seconds)
            if isinstance(answer, RawReply):
                return raw_response(answer)
            if isinstance(answer, Fault):
                return error_response(answer)
            replies.append(answer)
        head = {"id": "chatcmpl-scripted", "created": 0, "model": str(body.get("model"))}
        return await send_completion(http, body, head, make_choices(replies, "scripted"), NO_USAGE, replies)

    async def _ask(self, request: ScriptedRequest) -> Reply | Fault | RawReply:
        if callable(self._script):
            said = self._script(request)
            answer = await said if inspect.isawaitable(said) else said
        else:
            answer = self._script[min(request.index, len(self._script) - 1)]
        return Reply(verbatim=answer) if isinstance(answer, Mapping) else make_reply(answer)
