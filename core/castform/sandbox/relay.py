"""The one hole in a box's network: HTTP to one model session, whose real key stays outside.

A relay serves on a listening socket that a provider has made: a Unix socket mounted into the box,
or a port on a network that the box shares with nobody. A client shows the key that it was given
for the box; outside, the real one takes its place. Bodies and server-sent events pass as they come.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import secrets
import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import unquote

from castform.sandbox.contract import ModelEndpoint
from castform.sandbox.teardown import finish

if TYPE_CHECKING:
    import aiohttp
    from aiohttp import web
    from yarl import URL

ROUTES = frozenset({"chat", "completions", "embeddings", "messages", "models", "responses"})
"""First words of paths below `/v1`; without `/v1` they mean the same."""
_HOP_BY_HOP = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_CLIENTS_OWN = frozenset(
    {"host", "authorization", "x-api-key", "api-key", "cookie", "content-length", "expect"}
)
_SERVERS_OWN = frozenset({"set-cookie", "content-length", "location", "server", "date"})
MAX_CONNECTIONS = 128
"""Of one box at a time: a program inside must not use up this process's descriptors."""
_CONNECT_SECONDS = 30.0
_CLOSE_SECONDS = 5.0


class ModelRelay:
    """Passes requests for one model session on. `start` it on a socket, `aclose` it in the same event loop."""

    def __init__(self, endpoint: ModelEndpoint) -> None:
        self._endpoint = endpoint
        self.key = f"box-{secrets.token_urlsafe(24)}"
        """What a client in the box shows. It opens this relay and nothing else."""
        self._runner: web.AppRunner | None = None
        self._client: aiohttp.ClientSession | None = None
        self._server: asyncio.Server | None = None

    def inside(self, root_url: str) -> ModelEndpoint:
        """Return the endpoint as a program in the box uses it; `root_url` is how the box reaches the socket."""
        return ModelEndpoint(base_url=f"{root_url}/v1", api_key=self.key, model=self._endpoint.model)

    async def start(self, listening: socket.socket) -> None:
        """Serve on a listening socket, which belongs to the relay from now on."""
        import aiohttp
        from aiohttp import web

        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._pass_on)
        self._client = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, force_close=True),  # a reused connection may be dead
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS),
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
        )
        self._runner = web.AppRunner(
            app,
            access_log=None,
            logger=logging.Logger(__name__, logging.CRITICAL),  # a box must not write this process's log
            handler_cancellation=True,
            auto_decompress=False,  # bodies pass as they are
            shutdown_timeout=_CLOSE_SECONDS,
        )
        try:
            await self._runner.setup()
            serve = self._runner.server
            assert serve is not None  # it is set up
            self._server = await asyncio.get_running_loop().create_server(
                lambda: serve() if len(serve.connections) < MAX_CONNECTIONS else _Full(),
                sock=listening,
                start_serving=False,  # cancelled as it begins to serve, it is there to be closed
            )
            await self._server.start_serving()
        except BaseException:
            await self.aclose()
            raise

    async def aclose(self) -> None:
        """Stop serving and end what is under way. Twice is fine."""
        await finish(self._close())

    async def _close(self) -> None:
        runner, self._runner = self._runner, None
        client, self._client = self._client, None
        server, self._server = self._server, None
        if server is not None:
            server.close()
        if client is not None:
            await client.close()  # first: requests that are under way end with it
        if runner is not None:
            await runner.cleanup()

    async def _pass_on(self, request: web.Request) -> web.StreamResponse:
        import aiohttp
        from aiohttp import web

        refusal = self._find_refusal(request)
        if refusal is not None:
            return _make_error(*refusal)
        if self._client is None:
            return _make_error(503, "the sandbox is being closed")
        try:
            answer = await self._client.request(
                request.method,
                _make_url(self._endpoint, request.raw_path),
                headers=self._make_headers(request),
                data=request.content.iter_chunked(1 << 16) if request.body_exists else None,
                allow_redirects=False,
            )
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            words = f"the model cannot be reached: {type(error).__name__}"
            if request.content.exception() is None:  # else the client broke its own request off
                self._note_loss(request, words)
            return _make_error(502, words)
        async with answer:
            if 300 <= answer.status < 400:
                self._note_status(request, answer.status)
                return _make_error(502, "the model's server redirects, which is not followed")
            response = web.StreamResponse(status=answer.status, reason=answer.reason)
            response.headers.extend(_keep_headers(answer.headers, _SERVERS_OWN))
            if answer.content_length is not None and request.method != "HEAD":
                response.content_length = answer.content_length
            await response.prepare(request)
            try:
                async for chunk in answer.content.iter_any():
                    await response.write(chunk)
            except (aiohttp.ClientError, TimeoutError):
                if request.transport is not None and not request.transport.is_closing():
                    self._note_loss(request, "the model's answer broke off")
                _cut_off(request)  # the client must see that the answer is not whole
                raise
            self._note_status(request, answer.status)
            await response.write_eof()
            return response

    def _note_status(self, request: web.Request, status: int) -> None:
        if self._endpoint.calls is not None:
            self._endpoint.calls.note_status(request.method, request.path, status)

    def _note_loss(self, request: web.Request, words: str) -> None:
        if self._endpoint.calls is not None:
            self._endpoint.calls.note_loss(request.method, request.path, words)

    def _find_refusal(self, request: web.Request) -> tuple[int, str] | None:
        """Return status and words for a request that is not passed on."""
        if (
            not request.raw_path.startswith("/")
            or request.raw_path.startswith("//")
            or request.method == "CONNECT"
        ):
            return 403, "this is no proxy: only the model of this sandbox is reachable"
        if not is_session_path(request.raw_path):
            return (
                404,
                "only the model of this sandbox is reachable: /v1/chat/completions, /v1/models and the like",
            )
        if not hmac.compare_digest(
            _read_key(request.headers).encode("utf-8", "surrogateescape"), self.key.encode()
        ):
            return 401, "the key is not the one that was given for this sandbox"
        return None

    def _make_headers(self, request: web.Request) -> list[tuple[str, str]]:
        headers = _keep_headers(request.headers, _CLIENTS_OWN)
        if "content-length" in request.headers:
            headers.append(("Content-Length", request.headers["content-length"]))
        if "x-api-key" in request.headers and "authorization" not in request.headers:
            return [*headers, ("x-api-key", self._endpoint.api_key)]
        return [*headers, ("Authorization", f"Bearer {self._endpoint.api_key}")]


class _Full(asyncio.Protocol):
    """Turns a connection away."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


def is_session_path(raw_path: str) -> bool:
    """Say whether a request's path, with its query, stays inside a model session."""
    path = raw_path.partition("?")[0]
    if not path.startswith("/") or "#" in path:
        return False
    parts = path[1:].split("/")
    for part in parts:
        plain = unquote(unquote(part))
        if plain in (".", "..") or any(mark in plain for mark in "/\\%\0") or not plain.isprintable():
            return False
    if any(part == "" for part in parts[:-1]):
        return False
    if parts[0] == "v1":
        parts = parts[1:]
    return bool(parts) and parts[0] in ROUTES


def _make_url(endpoint: ModelEndpoint, raw_path: str) -> URL:
    from yarl import URL

    rest = raw_path.removeprefix("/v1") if raw_path.startswith("/v1/") else raw_path
    return URL(endpoint.base_url.rstrip("/") + rest, encoded=True)


def _read_key(headers: Mapping[str, str]) -> str:
    """Return the key that a client shows, by OpenAI's header or by Anthropic's."""
    scheme, _, key = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return key.strip()
    return headers.get("x-api-key", "")


def _keep_headers(headers: Mapping[str, str], without: frozenset[str]) -> list[tuple[str, str]]:
    """Return headers as they came, without those of one connection and some of the sender's own."""
    named = {word.strip().lower() for word in headers.get("connection", "").split(",")}
    return [
        (name, value) for name, value in headers.items() if name.lower() not in _HOP_BY_HOP | without | named
    ]


def _make_error(status: int, words: str) -> web.Response:
    """Return an error in the form that OpenAI's and Anthropic's clients both read."""
    from aiohttp import web

    kind = {401: "authentication_error", 403: "permission_error", 404: "not_found_error"}.get(
        status, "api_error"
    )
    body = {"type": "error", "error": {"type": kind, "code": "sandbox_relay", "message": words}}
    return web.Response(status=status, body=json.dumps(body).encode(), content_type="application/json")


def _cut_off(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()
