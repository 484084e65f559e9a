"""One exchange with a judge's endpoint, over connections that all its requests share."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from typing import Any

from benchmax.auth import ModelAuth, ModelRequestContext, request_headers
from benchmax.envs.http_errors import describe_http_error, shortened, without_secrets
from benchmax.envs.http_pool import HttpPool, ReplyTooLargeError
from benchmax.envs.loop_local import LoopLocal
from benchmax.envs.retry import is_transient_status
from benchmax.envs.termination import describe_error
from benchmax.rewards.deterministic.completion import message_text
from benchmax.rewards.judge.errors import JudgeError
from benchmax.rewards.judge.parameters import Accepted, refused_parameter

MAX_REPLY_BYTES = 2**20
"""Largest reply that is read, thinking included. A verdict is a few hundred bytes."""
AUTH_STATUSES = frozenset({401, 403})


class PassingError(Exception):
    """The same request may succeed later."""

    def __init__(self, message: str, *, retry_after: str | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class AuthRefusedError(Exception):
    """The endpoint did not accept the key."""


class JudgeEndpoint:
    """A judge's connections, its turns, and what the endpoint is known to take. Not pickled with the judge."""

    def __init__(self, max_concurrency: int) -> None:
        self._pools = LoopLocal(HttpPool)
        self._turns = LoopLocal(partial(asyncio.Semaphore, max_concurrency))
        self._accepted = Accepted()

    def turn(self) -> asyncio.Semaphore:
        """Return what a question holds from its first request to its verdict."""
        return self._turns.get()

    async def say(
        self,
        context: ModelRequestContext,
        auth: ModelAuth,
        prompt: str,
        *,
        temperature: float,
        max_tokens: int | None,
    ) -> str:
        """Send the prompt and return the text of the reply, "" when it has none.

        A parameter that the endpoint refuses is left out, then and from then on.
        AuthRefusedError, PassingError: worth another try. JudgeError: hopeless.
        """
        accepted = self._accepted
        while True:
            fields = accepted.fields(prompt=prompt, temperature=temperature, max_tokens=max_tokens)
            status, body = await self._post(context, auth, prompt, fields)
            if status < 300:
                text = _reply_text(body)
                self._accepted = accepted
                return text
            refused = refused_parameter(status, body, fields)
            fewer = accepted.without(refused) if refused else None
            if fewer is None:
                raise JudgeError(describe_http_error(status, body))
            accepted = fewer

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        pool = self._pools.pop()
        if pool is not None:
            await pool.aclose()

    async def _post(
        self, context: ModelRequestContext, auth: ModelAuth, prompt: str, fields: dict[str, Any]
    ) -> tuple[int, bytes]:
        request = {"model": context.model, "messages": [{"role": "user", "content": prompt}], **fields}
        url = context.base_url.rstrip("/") + "/chat/completions"
        try:
            headers = await request_headers(auth, context)
            reply = await self._pools.get().post(
                url, json.dumps(request).encode(), headers, timeout_seconds=None, max_bytes=MAX_REPLY_BYTES
            )
        except ConnectionError as error:
            raise PassingError(f"no connection: {error}") from error
        except ReplyTooLargeError as error:
            raise JudgeError(str(error)) from error
        except Exception as error:  # the provider's code, or an address that is none
            raise JudgeError(describe_error(error)) from error
        if reply.status < 300:
            return reply.status, reply.body
        body = without_secrets(reply.body, headers)
        if reply.status in AUTH_STATUSES:
            raise AuthRefusedError(describe_http_error(reply.status, body))
        if is_transient_status(reply.status):
            raise PassingError(describe_http_error(reply.status, body), retry_after=reply.retry_after)
        return reply.status, body


def _reply_text(body: bytes) -> str:
    """Return what the model said. PassingError: the body is no chat completion."""
    try:
        message = json.loads(body)["choices"][0]["message"]
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise PassingError(f"the reply is no chat completion: {shortened(body) or 'it is empty'}") from error
    return message_text(message)
