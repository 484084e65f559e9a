"""A model server with two sessions and their keys on this machine, and a client for inside a box."""

from __future__ import annotations

import contextlib
import json
import secrets
import socket
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from castform.sandbox.contract import ModelEndpoint, Sandbox
from castform.testing.sandboxes.rule import NotCheckedError

if TYPE_CHECKING:
    from aiohttp import web

FETCH = r"""
if command -v python3 > /dev/null; then
    exec python3 - "$@" << 'CODE'
import os, socket, sys
for url, key in zip(sys.argv[1::2], sys.argv[2::2]):
    place, _, path = url[len("http://"):].partition("/")
    target, path = place, "/" + path
    if os.environ.get("ASK_BY_PROXY"):
        proxy = os.environ.get("http_proxy") or os.environ.get("HTTP_PROXY")
        if proxy:
            target, path = proxy[len("http://"):].rstrip("/").rpartition("@")[2], url
    host, _, port = target.rpartition(":")
    head = "GET %s HTTP/1.0\r\nHost: %s\r\nAuthorization: Bearer %s\r\n\r\n" % (path, place, key)
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=4) as link:
            link.settimeout(4)
            link.sendall(head.encode())
            said = b""
            while chunk := link.recv(65536):
                said += chunk
        line, _, rest = said.decode("utf-8", "replace").partition("\r\n")
        print("status", line.split(" ")[1], rest.partition("\r\n\r\n")[2])
    except Exception as error:
        print("unreachable", type(error).__name__)
CODE
fi
off=off direct='--noproxy *'
[ -z "$ASK_BY_PROXY" ] || { off=on; direct=; }
set -f
command -v curl > /dev/null || command -v wget > /dev/null || echo nothing
while [ $# -gt 0 ]; do
    if command -v curl > /dev/null; then
        curl -s $direct -m 4 -w '\nstatus %{http_code}\n' -H "Authorization: Bearer $2" --path-as-is "$1" || echo unreachable
    elif command -v wget > /dev/null; then
        timeout 4 wget -q -Y $off -O - --header "Authorization: Bearer $2" "$1" && echo 'status 200' || echo unreachable
    fi
    shift 2
done
"""
"""Asks for HTTP URLs with a port, each followed by a key, and shows what came: `python3`, curl or wget, whichever is inside."""


@dataclass(kw_only=True)
class Upstream:
    """Two sessions of one server on the loopback interface; each answers to its own key alone."""

    port: int
    word: str
    """Every answer of the server has it."""
    first: ModelEndpoint
    second: ModelEndpoint
    asked: list[tuple[str, str]] = field(default_factory=list)
    """Path and key of every request."""


@contextlib.asynccontextmanager
async def serve_sessions(*, host: str = "127.0.0.1") -> AsyncIterator[Upstream]:
    """Serve until the block ends. `host`: the address to listen on."""
    from aiohttp import web

    listening = socket.create_server((host, 0))
    port = listening.getsockname()[1]
    keys = {name: f"key-{name}-{secrets.token_hex(8)}" for name in ("first", "second")}
    ends = {
        name: ModelEndpoint(
            base_url=f"http://127.0.0.1:{port}/sessions/{name}/v1", api_key=key, model=f"model-{name}"
        )
        for name, key in keys.items()
    }
    upstream = Upstream(
        port=port, word=f"castform{secrets.token_hex(8)}", first=ends["first"], second=ends["second"]
    )

    async def answer(request: web.Request) -> web.Response:
        key = request.headers.get("Authorization", "").removeprefix("Bearer ")
        upstream.asked.append((request.path, key))
        session = request.path.split("/")[2] if request.path.startswith("/sessions/") else ""
        said = json.dumps({"word": upstream.word, "session": session, "data": []})
        refused = bool(session) and keys.get(session) != key
        return web.Response(text=said, status=401 if refused else 200)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.SockSite(runner, listening).start()
        yield upstream
    finally:
        await runner.cleanup()


async def fetch(box: Sandbox, url: str, key: str = "") -> str:
    """Ask for a URL from inside; return what came, with `status N` or `unreachable` in it."""
    return await fetch_all(box, [(url, key)])


async def fetch_all(box: Sandbox, asks: Sequence[tuple[str, str]], *, by_proxy: bool = False) -> str:
    """Ask for URLs, each with a key, one after the other; return all that came.

    `by_proxy`: by the proxy that the box's variables name, as plain programs do.
    """
    words = [word for ask in asks for word in ask]
    env = {"ASK_BY_PROXY": "1" if by_proxy else ""}
    done = await box.exec(["sh", "-c", FETCH, "sh", *words], env=env, timeout_seconds=20 + 6 * len(asks))
    if "nothing" in done.text.split():
        raise NotCheckedError("the image has neither python3 nor curl nor wget to ask by")
    return f"{done.text} {done.error_text}"
