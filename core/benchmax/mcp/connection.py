"""A session with one MCP server, from its start to its end, in a task of its own.

The package's contexts must be entered and left by one task, and a rollout's tool calls come
from any: so one task holds them open, and the others send requests through them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from benchmax.envs.shared_types import RolloutFailure
from benchmax.envs.termination import describe_error
from benchmax.envs.tool_closing import see_through
from benchmax.envs.tool_faults import NOT_UNICODE, TOO_DEEP, ArgumentFault
from benchmax.mcp.process import ServerProcess, spawn_server
from benchmax.mcp.sdk import load_sdk, make_session

MAX_PAGES = 100
"""Of a server's list of tools."""
PING_SECONDS = 5.0
"""A server that is silent this long beside a call that took too long does not answer any more."""
LEAST_PING_SECONDS = 1.0
"""With calls that may take less than that."""
MAX_ERROR_CHARS = 300

Transport = Callable[[], AbstractAsyncContextManager[tuple[Any, Any, ServerProcess | None]]]
"""Makes a context that yields the incoming and the outgoing stream, and the process behind them if it is ours."""


class Connection:
    """One server. Every failure of it is a RolloutFailure `tool_error` that names it."""

    def __init__(self, name: str, transport: Transport) -> None:
        self._name = name
        self._transport = transport
        self._process: ServerProcess | None = None
        self._session: Any = None  # the package's ClientSession
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        self._failed = False

    @property
    def is_alive(self) -> bool:
        """Whether calls can be made: it has started, has not ended and has answered so far."""
        return (
            self._session is not None
            and not self._failed
            and not (self._task is None or self._task.done())
            and not (self._process is not None and self._process.exited.is_set())
        )

    async def start(self, *, timeout_seconds: float) -> list[Any]:  # Any: the package's Tool
        """Start the server and return its tools. RolloutFailure when it does not come up in time."""
        await load_sdk()
        self._task = asyncio.create_task(self._hold(), name=f"benchmax-mcp-{self._name}")
        try:
            async with asyncio.timeout(timeout_seconds):
                return await asyncio.shield(self._ready)
        except BaseException as error:
            late = isinstance(error, TimeoutError)
            end = self._end()  # before closing, which ends it in another way
            if not late:
                await self._settle()
                end = self._end()
            await self.close()
            if isinstance(error, RolloutFailure) or not isinstance(error, Exception):
                raise
            what = (
                f"was not ready after {timeout_seconds:g} seconds"
                if late
                else f"could not be started: {_describe(error)}"
            )
            raise RolloutFailure("tool_error", f"MCP server {self._name!r} {what}{end}") from error

    async def call(self, tool: str, arguments: Mapping[str, Any], *, timeout_seconds: float | None) -> Any:
        """Return the CallToolResult of one call.

        ArgumentFault: the server refuses the call, or it took too long and was given up
        while the server still answers a ping. RolloutFailure: the server is gone, silent, or
        says what is no MCP.
        """
        from mcp.shared.exceptions import MCPError
        from mcp_types import CONNECTION_CLOSED

        if not self.is_alive:
            raise await self._failure(f"is gone before the call of {tool!r}")
        _check_can_be_sent(tool, arguments)
        try:
            async with asyncio.timeout(timeout_seconds):
                return await self._session.call_tool(tool, dict(arguments))
        except TimeoutError:
            await self._check_answers(tool, timeout_seconds)
            raise ArgumentFault(
                f"Tool {tool!r} took longer than {timeout_seconds:g} seconds and was stopped."
            ) from None
        except MCPError as error:
            if error.code == CONNECTION_CLOSED or not self.is_alive:
                raise await self._failure(f"went away during the call of {tool!r}") from error
            if self._process is None:  # what HTTP itself refuses looks like what the tool refuses
                await self._check_answers(tool, timeout_seconds)
            raise ArgumentFault(f"Error: {error.message}") from error
        except Exception as error:  # its answer is no MCP: the package raises many kinds
            raise await self._failure(f"answered the call of {tool!r} wrongly: {_describe(error)}") from error

    async def close(self) -> None:
        """End the session and the server, for certain, also when the caller is cancelled meanwhile."""
        await see_through(self._close())

    async def _close(self) -> None:
        self._stop.set()
        if self._task is None:
            return
        if not self._ready.done():
            self._task.cancel()
        await asyncio.wait({self._task})
        if self._ready.done() and not self._ready.cancelled():
            self._ready.exception()  # retrieved, so that asyncio does not report it as lost

    async def _hold(self) -> None:
        try:
            async with (
                self._transport() as (incoming, outgoing, self._process),
                make_session(incoming, outgoing) as session,
            ):
                await session.initialize()
                tools = await _list_tools(session)
                self._session = session
                if not self._ready.done():
                    self._ready.set_result(tools)
                await self._stop.wait()
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - handed to start, which raises it
            if not self._ready.done():
                self._ready.set_exception(
                    error if isinstance(error, Exception) else ConnectionAbortedError("it was closed")
                )

    async def _check_answers(self, tool: str, timeout_seconds: float | None) -> None:
        """Raise RolloutFailure unless the server answers a ping, or knows none."""
        from mcp.shared.exceptions import MCPError
        from mcp_types import METHOD_NOT_FOUND, EmptyResult, PingRequest

        seconds = max(LEAST_PING_SECONDS, min(PING_SECONDS, timeout_seconds or PING_SECONDS))
        try:
            async with asyncio.timeout(seconds):
                await self._session.send_request(PingRequest(), EmptyResult)
        except TimeoutError:
            waited = f" for {timeout_seconds:g} seconds" if timeout_seconds else ""
            raise await self._failure(
                f"has not answered the call of {tool!r}{waited}, nor a ping after it"
            ) from None
        except MCPError as error:
            if error.code != METHOD_NOT_FOUND:
                raise await self._failure(
                    f"cannot be used any more since the call of {tool!r}: {error.message}"
                ) from error

    async def _failure(self, what: str) -> RolloutFailure:
        await self._settle()
        self._failed = True
        return RolloutFailure("tool_error", f"MCP server {self._name!r} {what}{self._end()}")

    async def _settle(self) -> None:
        if self._process is not None:
            await self._process.settle()

    def _end(self) -> str:
        return "" if self._process is None else f" ({self._process.describe_end()})"


@asynccontextmanager
async def open_process(
    command: list[str], env: Mapping[str, str], cwd: str | None, passed: tuple[str, ...], turn: asyncio.Lock
) -> AsyncIterator[tuple[Any, Any, ServerProcess | None]]:
    """Start a server as a child process; leaving ends it.

    Starting a process holds up the event loop for some 10 ms, so that many are started one
    after the other, each in its `turn`, and others run in between.
    """
    async with turn:
        await asyncio.sleep(0)
        process = await spawn_server(command, env=env, cwd=cwd, passed=passed)
    async with process.streams() as (incoming, outgoing):
        yield incoming, outgoing, process


@asynccontextmanager
async def open_http(
    url: str, headers: Mapping[str, str], *, is_local: bool
) -> AsyncIterator[tuple[Any, Any, ServerProcess | None]]:
    """Connect to a server over streamable HTTP; leaving ends the session there."""
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    # Calls have a limit of their own; proxies of the environment are for other machines.
    timeout = httpx2.Timeout(30.0, read=None)
    async with (
        httpx2.AsyncClient(headers=dict(headers), timeout=timeout, trust_env=not is_local) as client,
        streamable_http_client(url, http_client=client) as (incoming, outgoing),
    ):
        yield incoming, outgoing, None


def _check_can_be_sent(tool: str, arguments: Mapping[str, Any]) -> None:
    """Raise ArgumentFault for arguments that the package cannot write: it would never be heard of again."""
    from mcp_types import CallToolRequestParams

    try:
        CallToolRequestParams(name=tool, arguments=dict(arguments)).model_dump_json()
    except (ValueError, RecursionError) as error:  # pydantic's serialization errors are ValueErrors
        deep = isinstance(error, RecursionError) or "depth" in str(error)
        fault = TOO_DEEP if deep else NOT_UNICODE
        raise ArgumentFault(f"Invalid arguments for tool {tool!r}: {fault}.") from error


async def _list_tools(session: Any) -> list[Any]:  # Any: the package's types
    from mcp_types import PaginatedRequestParams

    tools: list[Any] = []
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        page = await session.list_tools(params=PaginatedRequestParams(cursor=cursor) if cursor else None)
        tools += page.tools
        cursor = page.next_cursor
        if not cursor:
            return tools
    raise ValueError(f"its list of tools has more than {MAX_PAGES} pages")


def _describe(error: BaseException) -> str:
    """Return an error in words; of a group, as task groups raise it, the first one in it."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    words = " ".join(describe_error(error).split())
    return words.partition(" For further information")[0][:MAX_ERROR_CHARS]  # pydantic's link is for people
