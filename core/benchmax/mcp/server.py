"""An MCP server as a source of tools: named in `tools`, started when a rollout needs it."""

from __future__ import annotations

import asyncio
import math
import os
import shlex
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from benchmax.envs.http_pool import is_loopback
from benchmax.envs.loop_local import LoopLocal
from benchmax.envs.shared_types import Example, RolloutFailure
from benchmax.envs.tools import FunctionTool, check_limit
from benchmax.mcp.connection import Connection, open_http, open_process
from benchmax.mcp.results import make_names, make_parameters, read_result
from benchmax.mcp.sdk import check_sdk

MAX_STARTS = 2
"""Of a shared server: it is started again once when it died."""


@dataclass(frozen=True, kw_only=True)
class McpServer:
    """A Model Context Protocol server, by the command that starts it or by its URL.

    Each rollout has a server (over HTTP: a session) of its own, which is ended with it and with
    all that it started: its process group, on Linux also what left that. What the model did
    wrong and what the server calls an error is told to the model; a server that crashes, falls
    silent or speaks no MCP ends the rollout as `tool_error`.
    """

    command: str | Sequence[str] = ()
    """The program and its arguments; text is split as a shell splits it. It talks over stdin and stdout."""
    url: str = ""
    """Of a server that talks streamable HTTP, instead of a command."""
    name: str = ""
    """In error messages. Default: the program's, or the URL's host."""
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Environment variables of the command, besides PATH, HOME and the like. No others are passed on."""
    pass_env: Sequence[str] = ()
    """Names of the host's environment variables that the command gets too, e.g. one that holds a key."""
    cwd: str | Path | None = None
    """Folder of the command. Default: the host's."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Sent with every request to the URL."""
    token_env: str = ""
    """Name of the environment variable that holds the bearer token for the URL."""
    scope: str = "rollout"
    """`rollout`: one for each. `shared`: one for all of an event loop, ended by the environment's `aclose`."""
    only: Sequence[str] | None = None
    """The server's own names of the tools to offer. None: all of them."""
    prefix: str = ""
    """Put before every tool's name, e.g. to tell two servers apart."""
    start_timeout_seconds: float = 60.0
    """Until the server has listed its tools."""
    call_timeout_seconds: float | None = 60.0
    """Most seconds for one call. Then the model is told so, or the rollout ends if the server is silent."""
    images: bool = False
    """Give images to the model as they are. Off: in words, for models that read text only."""
    max_result_chars: int | None = None
    """Most characters of a result, in place of the environment's."""
    _shared: LoopLocal[_Shared] = field(init=False, repr=False, compare=False)
    _turns: LoopLocal[asyncio.Lock] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_sdk()
        if isinstance(self.command, str):
            object.__setattr__(self, "command", tuple(shlex.split(self.command)))
        if bool(self.command) == bool(self.url):
            raise ValueError("an McpServer has either a command or a url")
        _check_texts("command", self.command)
        _check_texts("env", [*self.env, *self.env.values()] if isinstance(self.env, Mapping) else None)
        _check_texts("headers", [*self.headers.values()] if isinstance(self.headers, Mapping) else None)
        _check_texts("pass_env", self.pass_env)
        _check_texts("url, name, token_env and prefix", [self.url, self.name, self.token_env, self.prefix])
        if self.url and urlsplit(self.url).scheme not in ("http", "https"):
            raise ValueError(f"url must begin with http:// or https://, not {self.url!r}")
        if self.scope not in ("rollout", "shared"):
            raise ValueError(f"scope must be 'rollout' or 'shared', not {self.scope!r}")
        if isinstance(self.only, str):
            raise ValueError("only is a list of tool names, not one text")
        for limit in ("start_timeout_seconds", "call_timeout_seconds"):
            check_limit(limit, getattr(self, limit))
        check_limit("max_result_chars", self.max_result_chars, whole=True)
        if urlsplit(self.url).password:
            raise ValueError("url must not hold a password: token_env or headers take it")
        if not self.name:
            fallback = urlsplit(self.url).netloc if self.url else Path(self.command[0]).name
            object.__setattr__(self, "name", fallback)
        object.__setattr__(self, "_shared", LoopLocal(partial(_Shared, self)))
        object.__setattr__(self, "_turns", LoopLocal(asyncio.Lock))

    def open(
        self, rollout_id: str, example: Example[Any]
    ) -> AbstractAsyncContextManager[Sequence[FunctionTool]]:
        """Return a context that yields the server's tools for one rollout. RolloutFailure when it does not start."""
        return self._open_shared() if self.scope == "shared" else self._open_own()

    async def aclose(self) -> None:
        """End the shared server of the running event loop, if there is one."""
        shared = self._shared.pop()
        if shared is not None:
            await shared.close()

    def connect(self) -> Connection:
        """Return a connection that is not started yet."""
        if self.url:
            headers = dict(self.headers)
            if self.token_env:
                headers["Authorization"] = f"Bearer {self._token()}"
            local = is_loopback(urlsplit(self.url).hostname or "")
            return Connection(self.name, partial(open_http, self.url, headers, is_local=local))
        cwd = None if self.cwd is None else str(self.cwd)
        return Connection(
            self.name,
            partial(
                open_process,
                list(self.command),
                dict(self.env),
                cwd,
                tuple(self.pass_env),
                self._turns.get(),
            ),
        )

    @asynccontextmanager
    async def _open_own(self) -> AsyncIterator[Sequence[FunctionTool]]:
        connection = self.connect()
        tools = await connection.start(timeout_seconds=self.start_timeout_seconds)

        async def same() -> Connection:
            return connection

        try:
            yield self._make_tools(tools, same)
        finally:
            await connection.close()

    @asynccontextmanager
    async def _open_shared(self) -> AsyncIterator[Sequence[FunctionTool]]:
        shared = self._shared.get()
        await shared.get()
        yield self._make_tools(shared.tools, shared.get)

    def _make_tools(self, offered: Sequence[Any], get: Callable[[], Any]) -> list[FunctionTool]:
        by_name = {tool.name: tool for tool in offered}
        missing = [name for name in self.only or () if name not in by_name]
        if missing:
            raise RolloutFailure(
                "tool_error",
                f"MCP server {self.name!r} has no tool {missing[0]!r}; it has {', '.join(by_name)}",
            )
        names = make_names(by_name, self.prefix)
        return [
            FunctionTool(
                function=_Caller(self, get, original),
                name=names[original],
                description=by_name[original].description or by_name[original].title or original,
                parameters=make_parameters(by_name[original].input_schema),
                timeout_seconds=math.inf,  # the connection's own limit, which looks whether the server lives
                max_result_chars=self.max_result_chars,
            )
            for original in by_name
            if self.only is None or original in self.only
        ]

    def _token(self) -> str:
        token = os.environ.get(self.token_env, "")
        if not token:
            raise RolloutFailure(
                "tool_error",
                f"MCP server {self.name!r}: the environment variable {self.token_env} is not set",
            )
        return token


def _check_texts(what: str, values: object) -> None:
    """Raise TypeError unless these are texts, ValueError when one has a NUL, which no program can be given."""
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise TypeError(f"{what} must hold texts, not {values!r}")
    for value in values:
        if not isinstance(value, str):
            raise TypeError(f"{what} must hold texts, not {value!r}")
        if "\0" in value:
            raise ValueError(f"{what} must not hold a NUL: {value!r}")


@dataclass(frozen=True)
class _Caller:
    """The function behind one tool."""

    server: McpServer
    get: Callable[[], Any]
    """Returns the connection to use, once it is awaited."""
    tool: str

    async def __call__(self, /, **arguments: Any) -> str | list[Any]:
        connection: Connection = await self.get()
        result = await connection.call(self.tool, arguments, timeout_seconds=self.server.call_timeout_seconds)
        return read_result(result, images=self.server.images)


class _Shared:
    """The one connection of an event loop, started on first use and again once if it died."""

    def __init__(self, server: McpServer) -> None:
        self.tools: list[Any] = []
        self._server = server
        self._connection: Connection | None = None
        self._starts = 0
        self._start_failure = ""
        """Why the last start came to nothing; empty where it did not."""
        self._lock = asyncio.Lock()

    async def get(self) -> Connection:
        """Return the living connection. RolloutFailure when it died too often or does not start.

        One that did not start is started no more often than one that died; its failure is told again.
        """
        async with self._lock:
            if self._connection is not None and self._connection.is_alive:
                return self._connection
            if self._starts >= MAX_STARTS:
                died = f"MCP server {self._server.name!r}, which is shared, died {MAX_STARTS} times"
                raise RolloutFailure("tool_error", self._start_failure or died)
            if self._connection is not None:
                await self._connection.close()
            self._connection = self._server.connect()
            self._starts += 1
            try:
                self.tools = await self._connection.start(timeout_seconds=self._server.start_timeout_seconds)
            except RolloutFailure as failure:
                self._start_failure = failure.message
                raise
            except asyncio.CancelledError:  # the rollout that started it was cancelled; another one may
                self._starts -= 1
                raise
            self._start_failure = ""
            return self._connection

    async def close(self) -> None:
        """End the server."""
        if self._connection is not None:
            await self._connection.close()
