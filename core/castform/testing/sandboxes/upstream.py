"""A model server with two sessions and their keys on this machine, and a client for inside a box."""

from __future__ import annotations

import contextlib
import json
import secrets
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from castform.sandbox.contract import ModelEndpoint, Sandbox
from castform.testing.sandboxes.rule import NotCheckedError

if TYPE_CHECKING:
    from aiohttp import web

FETCH = r"""
url=$1 key=$2
if command -v python3 > /dev/null; then
    python3 - "$url" "$key" << 'CODE'
import sys, urllib.request, urllib.error
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
ask = urllib.request.Request(sys.argv[1], headers={"Authorization": "Bearer " + sys.argv[2]})
try:
    with opener.open(ask, timeout=4) as answer:
        print("status", answer.status, answer.read().decode())
except urllib.error.HTTPError as error:
    print("status", error.code, error.read().decode())
except Exception as error:
    print("unreachable", type(error).__name__)
CODE
elif command -v curl > /dev/null; then
    curl -s --noproxy '*' -m 4 -w '\nstatus %{http_code}\n' -H "Authorization: Bearer $key" --path-as-is "$url" || echo unreachable
elif command -v wget > /dev/null; then
    wget -q -Y off -T 4 -O - --header "Authorization: Bearer $key" "$url" && echo 'status 200' || echo unreachable
else
    echo nothing
fi
"""
"""Asks for a URL with a key and shows what came: `python3`, curl or wget, whichever is inside."""


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
        return web.Response(text=said, status=200 if keys.get(session) == key else 401)

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
    done = await box.exec(["sh", "-c", FETCH, "sh", url, key], timeout_seconds=30)
    if "nothing" in done.text.split():
        raise NotCheckedError("the image has neither python3 nor curl nor wget to ask by")
    return f"{done.text} {done.error_text}"
