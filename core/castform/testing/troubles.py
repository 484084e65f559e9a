"""What can go wrong at a model server, and when: for `MockEndpoint(…, faults=[…])`.

A trouble turns the reply that was due into what comes instead; a schedule says when it does::

    faults=[every(3, rate_limited()), at_random(0.1, cut_off(40), seed=7)]
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from castform.scripted_replies import Answer, Fault, RawReply, Reply, ScriptedRequest
from castform.seeds import derive_seed

Trouble = Callable[[Reply], Answer]
"""Turns the reply that was due into what the client gets."""
Schedule = Callable[[ScriptedRequest, int], Trouble | None]
"""Says what befalls a request; the number counts the requests of all sessions, from 0. None: nothing."""


def late(seconds: float) -> Trouble:
    """Let the first byte wait."""
    return lambda reply: replace(reply, latency_seconds=reply.latency_seconds + seconds)


def slow_body(seconds: float) -> Trouble:
    """Wait so long between the pieces of the body: the events of a stream, 64 bytes of anything else."""
    return lambda reply: replace(reply, piece_seconds=seconds)


def rate_limited(retry_after_seconds: float = 0.0) -> Trouble:
    """Answer 429 with a Retry-After header."""
    return lambda reply: Fault(
        status=429, message="slow down", code="rate_limit", retry_after_seconds=retry_after_seconds
    )


def server_error(status: int = 500, *, retry_after_seconds: float | None = None) -> Trouble:
    """Answer with an HTTP error; without Retry-After a client waits as long as it thinks right."""
    return lambda reply: Fault(
        status=status, message="the server failed", retry_after_seconds=retry_after_seconds
    )


def context_full() -> Trouble:
    """Refuse the request, as its prompt does not fit the context budget."""
    return lambda reply: Fault(
        status=400, message="the conversation is too long", code="context_budget_exceeded"
    )


def cut_off(after_bytes: int = 0) -> Trouble:
    """Drop the connection after so many bytes of the body, or of the event stream."""
    return lambda reply: replace(reply, cut_after_bytes=after_bytes)


def truncated(characters: int = 16) -> Trouble:
    """Stop the text after so many characters, with the finish reason `length`; calls do not come that far."""

    def cut(reply: Reply) -> Answer:
        return replace(
            reply, content=(reply.content or "")[:characters], tool_calls=(), finish_reason="length"
        )

    return cut


def garbled(body: bytes = b'{"choices": [{"message": {"content": "hel') -> Trouble:
    """Answer 200 with a body that is no JSON."""
    return lambda reply: RawReply(body=body)


def every(n: int, trouble: Trouble) -> Schedule:
    """Every n-th request of all, the n-th first. ValueError when n is not positive."""
    if n < 1:
        raise ValueError(f"every {n} requests is never; n is at least 1")
    return lambda request, place: trouble if place % n == n - 1 else None


def at_random(share: float, trouble: Trouble, *, seed: int = 0) -> Schedule:
    """Each request with this probability, drawn from the seed, the session and the place in it.

    So it does not matter in which order requests of several sessions come. ValueError when `share`
    is no probability.
    """
    if not 0 <= share <= 1:
        raise ValueError(f"a share is from 0 to 1, not {share}")

    def choose(request: ScriptedRequest, place: int) -> Trouble | None:
        drawn = random.Random(derive_seed(seed, request.session_id, request.index)).random()
        return trouble if drawn < share else None

    return choose


def in_order(troubles: Sequence[Trouble | None], *, session: str | None = None) -> Schedule:
    """The i-th request of each session gets the i-th trouble, or none; of one session only, if it is named."""

    def choose(request: ScriptedRequest, place: int) -> Trouble | None:
        if session is not None and request.session_id != session:
            return None
        return troubles[request.index] if request.index < len(troubles) else None

    return choose


def befall(answer: Reply | Fault | RawReply, trouble: Trouble) -> Answer:
    """Return what comes instead of an answer; what is an error already stays one."""
    return trouble(answer) if isinstance(answer, Reply) else answer


TROUBLES: Mapping[str, Callable[..., Trouble]] = {
    function.__name__: function
    for function in (
        late,
        slow_body,
        rate_limited,
        server_error,
        context_full,
        cut_off,
        truncated,
        garbled,
    )
}
"""All of them by name, for parametrised tests."""
