"""HTTP to a vLLM server from any event loop: one thread, one loop, one connection pool."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Coroutine, Mapping
from concurrent.futures import CancelledError as FutureCancelledError
from typing import Any, TypeVar

import aiohttp

from castform.errors import RunFailedError

T = TypeVar("T")

IDLE_SECONDS = 2.0
"""How long a connection is kept unused; the server closes its end after 5 seconds, and a request
sent at that moment would be lost."""


class ServerRefusedError(Exception):
    """The server answered with an error status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"status {status}: {message}")
        self.status = status
        self.message = message


class ServerGoneError(Exception):
    """The server did not answer: no connection, a broken one, or a timeout."""


class ClientClosedError(RunFailedError):
    """The client was closed while the call waited, or before."""

    def __init__(self) -> None:
        super().__init__("the vLLM engine is closed")


class VllmClient:
    """Calls to one server. `call` may be awaited on any loop; cancelling it closes its connection,
    upon which vLLM drops the request from its batch."""

    def __init__(self, url: str, *, api_key: str | None = None) -> None:
        self.url = url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._loop = asyncio.new_event_loop()
        self._session: aiohttp.ClientSession | None = None
        self._waiting: set[asyncio.Task[Any]] = set()
        self._closed = False
        self._thread = threading.Thread(target=self._run_loop, name="castform-vllm-client", daemon=True)
        self._thread.start()

    async def call(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, timeout_seconds: float
    ) -> Any:
        """Return the decoded JSON reply, or its text where it is not JSON.

        Raises ServerRefusedError, ServerGoneError or ClientClosedError. `Any`: JSON.
        """
        return await self.run(self._request(method, path, body, timeout_seconds))

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Await a coroutine on the client's loop. Raises ClientClosedError when it is closed first."""
        if self._closed:
            work.close()
            raise ClientClosedError
        future = asyncio.run_coroutine_threadsafe(self._tracked(work), self._loop)
        return await asyncio.wrap_future(future)

    def run_blocking(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on this client's loop and wait for it; for callers without a loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def close(self) -> None:
        """End waiting calls with ClientClosedError and the thread. Closing twice is fine."""
        if self._closed:
            return
        self._closed = True
        asyncio.run_coroutine_threadsafe(self._shut(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run_loop(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    async def _tracked(self, work: Coroutine[Any, Any, T]) -> T:
        task = asyncio.current_task()
        assert task is not None  # a coroutine that runs is in a task
        self._waiting.add(task)
        try:
            return await work
        except (asyncio.CancelledError, FutureCancelledError):
            if self._closed:
                raise ClientClosedError from None
            raise
        finally:
            self._waiting.discard(task)

    async def _request(
        self, method: str, path: str, body: Mapping[str, Any] | None, timeout_seconds: float
    ) -> Any:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                headers=self._headers,
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=IDLE_SECONDS),
            )
        timeout = aiohttp.ClientTimeout(total=timeout_seconds)
        try:
            async with self._session.request(method, self.url + path, json=body, timeout=timeout) as reply:
                text = await reply.text()
                status = reply.status
        except TimeoutError as error:
            raise ServerGoneError(f"no answer to {method} {path} in {timeout_seconds:g} s") from error
        except (aiohttp.ClientError, OSError) as error:
            raise ServerGoneError(f"{method} {self.url}{path}: {error or type(error).__name__}") from error
        if status >= 400:
            raise ServerRefusedError(status, _error_message(text))
        try:
            return json.loads(text)
        except ValueError:
            return text

    async def _shut(self) -> None:
        waiting = list(self._waiting)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        if self._session is not None:
            await self._session.close()


def _error_message(text: str) -> str:
    """Return the message of an error body in any of the shapes that servers use."""
    try:
        body = json.loads(text)
    except ValueError:
        return text[:500]
    if isinstance(body, dict):
        error = body.get("error", body)
        if isinstance(error, dict):
            return str(error.get("message") or error.get("detail") or error)[:500]
        return str(error)[:500]
    return text[:500]
