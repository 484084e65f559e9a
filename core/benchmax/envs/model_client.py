"""Chat completions over one shared connection pool.

Lean on purpose: a one-shot rollout costs a request and little else, so that a hundred
rollouts on one core keep a model server busy. aiohttp's pool finds a free connection in
constant time, which httpx's does not.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from benchmax.auth import ModelAuth, ModelRequestContext, request_headers
from benchmax.envs.http_errors import describe_http_error, error_fields, shortened, without_secrets
from benchmax.envs.http_pool import HttpPool
from benchmax.envs.loop_local import LoopLocal
from benchmax.envs.observe import current_observer
from benchmax.envs.retry import is_transient_status, retry_delay
from benchmax.envs.shared_types import RolloutFailure
from benchmax.envs.termination import describe_error

logger = logging.getLogger(__name__)

CONTEXT_ERROR_CODE = "context_budget_exceeded"
"""Error code of an HTTP 400 that says: the conversation has outgrown the context."""

# Any: request and reply bodies are JSON as the server defines it.
_request_defaults: ContextVar[Mapping[str, Any] | None] = ContextVar(
    "benchmax_request_defaults", default=None
)


@contextmanager
def request_defaults(fields: Mapping[str, Any]) -> Iterator[None]:
    """Add fields (temperature, max_tokens, ...) to every chat request made inside.

    Nested uses add up, the inner one wins; `model`, `messages` and `tools` stay the environment's.
    """
    token = _request_defaults.set({**current_request_defaults(), **fields})
    try:
        yield
    finally:
        _request_defaults.reset(token)


def current_request_defaults() -> Mapping[str, Any]:
    """Return the fields that `request_defaults` adds here."""
    return _request_defaults.get() or {}


@dataclass(frozen=True, kw_only=True, slots=True)
class CallLimits:
    """How patient a client is."""

    retries: int
    """Requests made after the first one failed for a passing reason."""
    retry_seconds: float
    """Pause before the first retry, doubled for each further one; a Retry-After of the server wins."""
    timeout_seconds: float | None
    """Most seconds for one request, from sending it to having its whole reply."""


class ModelClient:
    """Posts chat requests and reads replies. One per environment, usable from several event loops."""

    def __init__(self, limits: CallLimits) -> None:
        self.limits = limits
        self._pools = LoopLocal(HttpPool)

    async def complete(
        self, context: ModelRequestContext, auth: ModelAuth, body: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the decoded reply to one chat request.

        RolloutFailure: `context_exceeded` when the server says that the context budget is
        spent, else `model_error` with what went wrong. 408, 409, 429, 5xx and broken
        connections are tried again within the limits.
        """
        request = {**current_request_defaults(), **body}
        url = context.base_url.rstrip("/") + "/chat/completions"
        started = time.perf_counter()
        try:
            data = json.dumps(request).encode()
            reply = await self._post_with_retries(context, auth, url, data)
        except (RolloutFailure, asyncio.CancelledError):
            raise
        except Exception as error:  # provider code, the network, an unserialisable message: none ends the run
            raise RolloutFailure("model_error", describe_error(error)) from error
        observer = current_observer()
        if observer is not None:
            observer.on_call(context.rollout_id, request, reply, time.perf_counter() - started)
        return reply

    async def aclose(self) -> None:
        """Close the running loop's connections."""
        pool = self._pools.pop()
        if pool is not None:
            await pool.aclose()

    async def _post_with_retries(
        self, context: ModelRequestContext, auth: ModelAuth, url: str, data: bytes
    ) -> dict[str, Any]:
        pool = self._pools.get()
        attempt = 0
        while True:
            headers = await request_headers(auth, context)
            retry_after: str | None = None
            try:
                reply = await pool.post(url, data, headers, timeout_seconds=self.limits.timeout_seconds)
            except ConnectionError as error:
                failure = RolloutFailure("model_error", f"no connection: {error}")
            else:
                body = without_secrets(reply.body, headers) if reply.status != 200 else reply.body
                if reply.status < 300:
                    return _decoded_reply(body)
                failure = _failure_of(reply.status, body)
                if not is_transient_status(reply.status):
                    raise failure
                retry_after = reply.retry_after
            delay = retry_delay(
                attempt,
                base_seconds=self.limits.retry_seconds,
                retry_after=retry_after,
                key=context.rollout_id,
            )
            if attempt >= self.limits.retries or delay is None:
                raise failure
            attempt += 1
            logger.warning("%s; trying again in %.1f seconds (%s)", failure, delay, context.rollout_id)
            await asyncio.sleep(delay)


def _decoded_reply(body: bytes) -> dict[str, Any]:
    try:
        reply = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise RolloutFailure("model_error", f"the reply is not JSON: {shortened(body)}") from error
    if not isinstance(reply, dict):
        raise RolloutFailure("model_error", f"the reply is not a JSON object: {shortened(body)}")
    return reply


def _failure_of(status: int, body: bytes) -> RolloutFailure:
    code, _ = error_fields(body)
    reason = "context_exceeded" if status == 400 and code == CONTEXT_ERROR_CODE else "model_error"
    return RolloutFailure(reason, describe_http_error(status, body))
