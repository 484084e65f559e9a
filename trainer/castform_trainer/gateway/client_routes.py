"""What an environment's clients reach with their session's key: the dialects, models, stored responses."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from aiohttp import web

from castform_trainer.gateway.chat import Answer, name_answer
from castform_trainer.gateway.dialects import ANTHROPIC, CHAT, RESPONSES, Dialect
from castform_trainer.gateway.dialects.anthropic.request import read_count_request
from castform_trainer.gateway.dialects.contract import ReadRequest, Waiting
from castform_trainer.gateway.dialects.responses.items import list_items
from castform_trainer.gateway.dialects.responses.store import (
    check_room,
    find_response,
    keep_response,
    remove_response,
)
from castform_trainer.gateway.errors import ApiError
from castform_trainer.gateway.json_reply import make_json_reply
from castform_trainer.gateway.models import describe_model, list_models
from castform_trainer.gateway.request import ChatRequest, pick_model
from castform_trainer.gateway.sessions import Inflight, Session, check_key

if TYPE_CHECKING:
    from castform_trainer.gateway.server import Gateway

KEEP_ALIVE_SECONDS = 10.0
"""After so long without a reply a stream begins, so that no client takes the silence for an end."""
EVENT_STREAM = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache"}
ROOTS = ("/sessions/{id}", "/sessions/{id}/", "/sessions/{id}/v1", "/sessions/{id}/v1/")


def add_client_routes(app: web.Application, gateway: Gateway) -> None:
    """Add the routes to an application. A base URL may end in `/v1` for clients that add it again."""
    routes = _ClientRoutes(gateway)
    for base in ("/sessions/{id}/v1", "/sessions/{id}/v1/v1"):
        app.router.add_post(f"{base}/chat/completions", routes.chat)
        app.router.add_post(f"{base}/messages", routes.messages)
        app.router.add_post(f"{base}/messages/count_tokens", routes.count_tokens)
        app.router.add_post(f"{base}/responses", routes.responses)
        app.router.add_post(f"{base}/responses/input_tokens", routes.count_input)
        app.router.add_get(f"{base}/responses/{{response}}", routes.show_response)
        app.router.add_delete(f"{base}/responses/{{response}}", routes.delete_response)
        app.router.add_get(f"{base}/responses/{{response}}/input_items", routes.show_items)
        app.router.add_get(f"{base}/models", routes.models)
        app.router.add_get(f"{base}/models/{{model:.+}}", routes.model)
    for root in ROOTS:
        app.router.add_get(root, routes.probe)


def pick_dialect(request: web.Request) -> Dialect:
    """Return the dialect whose errors the sender of a request reads."""
    if "/v1/messages" in request.path or "anthropic-version" in request.headers:
        return ANTHROPIC
    return RESPONSES if "/v1/responses" in request.path else CHAT


class _ClientRoutes:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def chat(self, request: web.Request) -> web.StreamResponse:
        return await self._answer(request, CHAT)

    async def messages(self, request: web.Request) -> web.StreamResponse:
        return await self._answer(request, ANTHROPIC)

    async def responses(self, request: web.Request) -> web.StreamResponse:
        return await self._answer(request, RESPONSES)

    async def count_tokens(self, request: web.Request) -> web.Response:
        session = self._find(request)
        asked = await self._read(request, session, read_count_request)
        return make_json_reply({"input_tokens": self._gateway.service.count_tokens(session, asked)})

    async def count_input(self, request: web.Request) -> web.Response:
        session = self._find(request)
        asked = await self._read(request, session, RESPONSES.read)
        count = self._gateway.service.count_tokens(session, asked)
        return make_json_reply({"object": "response.input_tokens", "input_tokens": count})

    async def show_response(self, request: web.Request) -> web.Response:
        stored = find_response(self._find(request), request.match_info["response"])
        return make_json_reply(stored.response)

    async def delete_response(self, request: web.Request) -> web.Response:
        session, key = self._find(request), request.match_info["response"]
        remove_response(session, key)
        return make_json_reply({"id": key, "object": "response", "deleted": True})

    async def show_items(self, request: web.Request) -> web.Response:
        stored = find_response(self._find(request), request.match_info["response"])
        items = list(stored.items)
        if request.query.get("order", "desc") == "desc":
            items.reverse()
        ends = {"first_id": items[0]["id"], "last_id": items[-1]["id"]} if items else {}
        return make_json_reply({"object": "list", "data": items, "has_more": False, **ends})

    async def models(self, request: web.Request) -> web.Response:
        return make_json_reply(list_models(self._find(request).spec, self._gateway.model_name))

    async def model(self, request: web.Request) -> web.Response:
        session, name = self._find(request), request.match_info["model"]
        pick_model(name, model=self._gateway.model_name, aliases=session.spec.model_aliases)
        return make_json_reply(describe_model(name))

    async def probe(self, request: web.Request) -> web.Response:
        """Answer what clients ask to see whether anybody is there. It says nothing, so it takes no key."""
        return make_json_reply({})

    async def _answer(self, request: web.Request, dialect: Dialect) -> web.StreamResponse:
        session = self._find(request)
        asked = await self._read(request, session, dialect.read)
        waiting = Waiting(digest=asked.body_digest.hex()[:24], created=int(time.time()), beats=0)
        try:
            work = self._begin(session, asked, dialect, request)
        except ApiError as error:
            if not asked.stream or error.code not in dialect.streamed_codes:
                raise
            return web.Response(body=dialect.stream_error(error, asked, waiting), headers=EVENT_STREAM)
        waiting = replace(waiting, digest=name_answer(session, work))
        size = len(await request.read())
        asking = asyncio.ensure_future(self._finish(session, asked, work, dialect, size))
        try:
            if not asked.stream:
                return make_json_reply(dialect.write(await asking))
            return await self._stream(request, dialect, asked, asking, waiting)
        finally:
            if asking.cancel() or asking.cancelled():  # it may not even have begun to wait
                self._gateway.service.leave(session, work)

    def _begin(
        self, session: Session, asked: ChatRequest, dialect: Dialect, request: web.Request
    ) -> Inflight:
        first = self._gateway.service.find_first_try(session, asked, request.headers)
        if first is not None:
            return first
        if _is_kept(asked, dialect):
            check_room(session)
        return self._gateway.service.begin(session, asked, request.headers)

    async def _read(self, request: web.Request, session: Session, read: ReadRequest) -> ChatRequest:
        try:
            return read(await request.read(), session, self._gateway.model_name)
        except RecursionError as error:
            raise ApiError(400, "invalid_json", "the body is nested too deeply") from error

    async def _finish(
        self, session: Session, asked: ChatRequest, work: Inflight, dialect: Dialect, size: int
    ) -> Answer:
        answer = await self._gateway.service.answer(session, asked, work)
        if _is_kept(asked, dialect):
            items = list_items(asked.details["body"].get("input") or [])
            keep_response(session, dialect.write(answer), items, size=size)
        return answer

    async def _stream(
        self,
        request: web.Request,
        dialect: Dialect,
        asked: ChatRequest,
        asking: asyncio.Future[Answer],
        waiting: Waiting,
    ) -> web.StreamResponse:
        """Send a reply as events: at once when it is there soon, else with signs of life until it is."""
        await asyncio.wait({asking}, timeout=KEEP_ALIVE_SECONDS)
        if asking.done():
            return web.Response(body=b"".join(dialect.stream(asking.result(), 0)), headers=EVENT_STREAM)
        stream = web.StreamResponse(headers=EVENT_STREAM)
        try:
            await stream.prepare(request)
            while not asking.done():
                await stream.write(dialect.keep_alive(asked, waiting))
                waiting = replace(waiting, beats=waiting.beats + 1)
                await asyncio.wait({asking}, timeout=KEEP_ALIVE_SECONDS)
            try:
                answer = replace(asking.result(), created=waiting.created)
                body = b"".join(dialect.stream(answer, waiting.beats))
            except ApiError as error:
                body = dialect.stream_error(error, asked, waiting)
            await stream.write(body)
            await stream.write_eof()
        except ConnectionError:
            pass  # the client has gone; `asking` is cancelled by the caller, which records it
        return stream

    def _find(self, request: web.Request) -> Session:
        session = self._gateway.sessions.find(request.match_info["id"])
        check_key(request.headers, session.key)
        return session


def _is_kept(asked: ChatRequest, dialect: Dialect) -> bool:
    return dialect is RESPONSES and asked.details["body"].get("store") is not False
