"""A real OpenAI-compatible server on loopback whose replies come from a function.

Probes and gold checks speak through it, so that any environment can be examined without a
model, and `castform.testing` builds its fake model on it. It runs in a thread of its own:
an environment that blocks its event loop still gets answers.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import threading
import time
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from aiohttp import web

from benchmax.testing.delivery import error_response, raw_response, send_completion
from benchmax.testing.replies import make_choices
from castform.calls import ModelCall
from castform.endpoint import SessionGrant, SessionSpec
from castform.scripted_replies import (
    Answer,
    Fault,
    RawReply,
    Reply,
    Script,
    ScriptedRequest,
    count_words,
    make_reply,
)

T = TypeVar("T")
MAX_BODY_BYTES = 64 * 1024 * 1024


@dataclass(slots=True)
class _Session:
    key: str
    script: Script
    requests: list[dict[str, Any]] = field(default_factory=list)
    calls: list[ModelCall] = field(default_factory=list)


class ScriptedEndpoint:
    """An Endpoint whose model is `script`; a session may be given another one with `set_script`.

    The server starts with the first session (or `start()`) and ends with `aclose()`.
    A script that raises answers 500 with the error's text, and `script_errors` keeps it.
    """

    def __init__(self, script: Script, *, model: str = "scripted") -> None:
        self.model = model
        self.script_errors: list[BaseException] = []
        self._script = script
        self._sessions: dict[str, _Session] = {}
        self._server: _Server | None = None

    def start(self) -> str:
        """Start the server and return its root URL, without a session in it."""
        if self._server is None:
            self._server = _Server(self._routes())
        return self._server.url

    def close(self) -> None:
        """Stop the server. Doing so twice is fine."""
        if self._server is not None:
            self._server.stop()
            self._server = None

    async def open_session(self, spec: SessionSpec) -> SessionGrant:
        return self.add_session(spec.session_id)

    def add_session(self, session_id: str, script: Script | None = None) -> SessionGrant:
        """Open a session from any thread. ValueError when the id is in use."""
        if session_id in self._sessions:
            raise ValueError(f"session {session_id!r} is open already")
        session = _Session(key=secrets.token_urlsafe(16), script=script or self._script)
        url = self.start()
        self._sessions[session_id] = session
        return SessionGrant(base_url=f"{url}/sessions/{session_id}/v1", api_key=session.key, model=self.model)

    async def collect(self, session_id: str) -> Sequence[ModelCall]:
        return tuple(self._sessions[session_id].calls)

    def requests(self, session_id: str) -> Sequence[dict[str, Any]]:
        """Return the decoded bodies that the session was sent, faults included, in order."""
        return tuple(self._sessions[session_id].requests)

    async def close_session(self, session_id: str) -> None:
        self._sessions.pop(session_id, None)

    async def aclose(self) -> None:
        await asyncio.to_thread(self.close)

    def _routes(self) -> list[web.RouteDef]:
        return [
            web.post("/sessions/{session}/v1/chat/completions", self._answer),
            web.get("/sessions/{session}/v1/models", self._list_models),
        ]

    async def _list_models(self, _: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": self.model, "object": "model"}]})

    async def _answer(self, http: web.Request) -> web.StreamResponse:
        session_id = http.match_info["session"]
        session = self._sessions.get(session_id)
        if session is None or http.headers.get("Authorization") != f"Bearer {session.key}":
            return error_response(
                Fault(status=401, message="unknown session or wrong key", code="invalid_api_key")
            )
        body = json.loads(await http.read())
        index = len(session.requests)
        session.requests.append(body)
        began = time.perf_counter()
        replies: list[Reply] = []
        for choice in range(int(body.get("n") or 1)):
            request = ScriptedRequest(
                session_id=session_id,
                index=index,
                choice=choice,
                path=http.path,
                headers=http.headers,
                body=body,
            )
            answer = self._ask(session, request)
            if answer.latency_seconds:
                await asyncio.sleep(answer.latency_seconds)
            if isinstance(answer, Fault):
                return error_response(answer)
            if isinstance(answer, RawReply):
                return raw_response(answer)
            replies.append(answer)
        return await self._send(http, session_id, session, index, body, replies, began)

    def _ask(self, session: _Session, request: ScriptedRequest) -> Reply | Fault | RawReply:
        try:
            return make_reply(self.answer(session.script, request))
        except Exception as error:  # noqa: BLE001 - the script belongs to the caller
            self.script_errors.append(error)
            return Fault(status=500, message=f"the script raised {type(error).__name__}: {error}")

    def answer(self, script: Script, request: ScriptedRequest) -> Answer:
        """Return what to say to a request; runs in the server's thread."""
        return script(request)

    async def _send(
        self,
        http: web.Request,
        session_id: str,
        session: _Session,
        index: int,
        body: dict[str, Any],
        replies: Sequence[Reply],
        began: float,
    ) -> web.StreamResponse:
        call_id = f"{session_id}.{index}"
        choices = make_choices(replies, call_id)
        prompt = count_words(body.get("messages") or [])
        sizes = [count_words([choice["message"]]) for choice in choices]
        usage = {
            "prompt_tokens": prompt,
            "completion_tokens": sum(sizes),
            "total_tokens": prompt + sum(sizes),
        }
        seconds = time.perf_counter() - began
        session.calls += [
            ModelCall(
                call_id=f"{call_id}.{place}",
                session_id=session_id,
                index=index,
                choice=place,
                messages=tuple(body.get("messages") or ()),
                tools=tuple(body.get("tools") or ()),
                reply=choice["message"],
                finish_reason=choice["finish_reason"],
                prompt_tokens=prompt,
                completion_tokens=size,
                seconds=seconds,
            )
            for place, (choice, size) in enumerate(zip(choices, sizes, strict=True))
        ]
        head = {"id": f"chatcmpl-{call_id}", "created": int(time.time()), "model": self.model}
        return await send_completion(http, body, head, choices, usage, replies)


class _Server:
    """An aiohttp server on a free loopback port, in a thread with its own event loop."""

    def __init__(self, routes: list[web.RouteDef]) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="scripted-endpoint", daemon=True)
        self._thread.start()
        application = web.Application(client_max_size=MAX_BODY_BYTES)
        application.add_routes(routes)
        self._runner = web.AppRunner(
            application, access_log=None, shutdown_timeout=0.5, handler_cancellation=True
        )
        port = self._do(self._listen())
        self.url = f"http://127.0.0.1:{port}"

    async def _listen(self) -> int:
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, backlog=1024)
        await site.start()
        port: int = self._runner.addresses[0][1]
        return port

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def stop(self) -> None:
        self._do(self._runner.cleanup())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
