"""A ModelAuth as the `auth` of an httpx client, sync or async."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import AsyncGenerator, Generator
from concurrent.futures import Future, wait
from threading import Thread

import httpx

from benchmax.auth.providers import ModelAuth, ModelRequestContext, check_model_auth, request_headers

SYNC_WAIT_SECONDS = 60.0
"""Longest that a sync request on an event loop's own thread waits for its provider."""


class RequestModelAuth(httpx.Auth):
    """Asks the provider before every request and puts its headers in place of the client's own key."""

    def __init__(self, auth: ModelAuth, context: ModelRequestContext) -> None:
        self._auth = check_model_auth(auth)
        self._context = context

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        """Authorise one request of an async client."""
        _authorise(request, await request_headers(self._auth, self._context))
        yield request

    def sync_auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Authorise one request of a sync client.

        A sync client blocks the event loop that it is used on whatever we do; there the
        provider runs on a loop of its own in another thread, with the caller's bindings.
        RuntimeError when it does not answer, which is what a provider tied to the blocked
        loop would do for ever.
        """
        _authorise(request, self._headers_now())
        yield request

    def _headers_now(self) -> dict[str, str]:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return self._resolve()
        answer: Future[dict[str, str]] = Future()
        caller = contextvars.copy_context()
        Thread(target=self._answer, args=(answer, caller), name="benchmax-auth", daemon=True).start()
        done, _ = wait([answer], timeout=SYNC_WAIT_SECONDS)
        if not done:
            raise RuntimeError(
                f"model auth gave no headers within {SYNC_WAIT_SECONDS:.0f} seconds to a sync client that blocks "
                "the event loop; use create_async_openai_client there"
            )
        return answer.result()

    def _answer(self, answer: Future[dict[str, str]], caller: contextvars.Context) -> None:
        try:
            answer.set_result(caller.run(self._resolve))
        except BaseException as error:  # noqa: BLE001 - handed to the waiting thread, which raises it
            answer.set_exception(error)

    def _resolve(self) -> dict[str, str]:
        return asyncio.run(request_headers(self._auth, self._context))


def _authorise(request: httpx.Request, headers: dict[str, str]) -> None:
    request.headers.pop("Authorization", None)
    request.headers.update(headers)
