"""The open sessions of a gateway: keys, limits, expiry, and what runs in each. Lives on the gateway's loop."""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from castform.calls import ModelCall, Sampling
from castform.endpoint import SessionSpec
from castform_trainer.engines.contract import Generation
from castform_trainer.gateway.errors import ApiError
from castform_trainer.gateway.request import ChatRequest
from castform_trainer.gateway.splice import History, Prompt


@dataclass(kw_only=True, eq=False, slots=True)
class Inflight:
    """One request: what samples it, who waits for it, and the answer once there is one."""

    request: ChatRequest
    index: int
    idempotency_key: str | None
    prompt: Prompt
    samplings: tuple[Sampling, ...]
    """In force, one a choice: they differ in the seed."""
    overrides: tuple[str, ...]
    task: asyncio.Task[None] | None = None
    generations: list[Generation | None] = field(default_factory=list)
    waiters: int = 0
    calls: Sequence[ModelCall] | None = None
    """The records, once written; no later answer changes them."""
    lineage: str | None = None
    """What the client says about where in its tree of agents it asks from."""
    abandoned: bool = False
    """Its client has gone for good: whoever asks again gets a new sample."""
    started: float = 0.0
    """`loop.time()` of the request."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """A request without an answer, because the engine failed: the rollout behind it is not scored."""

    body_digest: bytes
    call: ModelCall
    """What was asked; it has no token data and says what failed in `error`."""
    next_index: int
    """Requests from this index on began after it had failed."""

    def is_retried_by(self, work: Inflight) -> bool:
        """Tell whether a request is a later try of this one, and no equal one that ran beside it."""
        return work.request.body_digest == self.body_digest and work.index >= self.next_index


@dataclass(kw_only=True, eq=False, slots=True)
class Session:
    """One rollout's view of the model."""

    spec: SessionSpec
    key: str = field(repr=False)
    history: History = field(default_factory=History)
    inflight: list[Inflight] = field(default_factory=list)
    """Requests of this session, also answered ones: a retry finds its first try here."""
    calls: list[ModelCall] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    """Requests that the engine failed and that no later try has made good."""
    stored: dict[str, object] = field(default_factory=dict)
    """What dialects keep between requests, by id."""
    next_index: int = 0
    expiry: asyncio.TimerHandle | None = None

    def find_first_try(self, request: ChatRequest, key: str | None, *, is_retry: bool) -> Inflight | None:
        """Return the request that this one repeats: same idempotency key, or a marked retry of the same body.

        Of several equal requests, one whose client has gone comes first. What ran beside a try that
        failed is no try of the same request.
        """
        if key is not None:
            for earlier in self.inflight:
                if earlier.idempotency_key == key and not earlier.abandoned:
                    if earlier.request.body_digest != request.body_digest:
                        raise ApiError(
                            422, "idempotency_key_reused", "this Idempotency-Key belongs to another body"
                        )
                    return earlier
        if not is_retry:
            return None
        faults = [fault for fault in self.faults if fault.body_digest == request.body_digest]
        same = [
            earlier
            for earlier in self.inflight
            if earlier.request.body_digest == request.body_digest
            and not earlier.abandoned
            and all(fault.is_retried_by(earlier) for fault in faults)
        ]
        return next((e for e in same if not e.waiters and e.calls is None), same[-1] if same else None)


class SessionTable:
    """Opens, finds and ends sessions."""

    def __init__(self) -> None:
        self._open: dict[str, Session] = {}
        self._gone: dict[str, str] = {}

    def __iter__(self) -> Iterator[Session]:
        return iter(list(self._open.values()))

    def __len__(self) -> int:
        return len(self._open)

    def add(self, spec: SessionSpec) -> Session:
        """Open a session with a fresh key. ApiError 409 when the id is in use."""
        if spec.session_id in self._open:
            raise ApiError(409, "session_exists", f"session {spec.session_id!r} is open already")
        session = Session(spec=spec, key=f"sk-castform-{secrets.token_urlsafe(24)}")
        self._gone.pop(spec.session_id, None)
        self._open[spec.session_id] = session
        return session

    def find(self, session_id: str) -> Session:
        """Return an open session. ApiError 410 for one that expired, 404 for any other id."""
        session = self._open.get(session_id)
        if session is None:
            if self._gone.get(session_id) == "expired":
                raise ApiError(410, "session_expired", f"session {session_id!r} outlived its ttl_seconds")
            raise ApiError(404, "session_not_found", f"no session {session_id!r} is open here")
        return session

    def remove(self, session_id: str, *, expired: bool = False) -> Session | None:
        """Take a session out; None when it is not open."""
        session = self._open.pop(session_id, None)
        if session is not None and session.expiry is not None:
            session.expiry.cancel()
        if session is not None and expired:
            self._gone[session_id] = "expired"
        return session


def check_key(headers: Mapping[str, str], expected: str) -> None:
    """Check, in constant time, that the headers hold the key. ApiError 401 when they do not.

    It travels as `Authorization: Bearer …` or, as Anthropic's clients send it, as `x-api-key`.
    """
    scheme, _, bearer = headers.get("Authorization", "").partition(" ")
    given = [bearer if scheme.lower() == "bearer" else "", headers.get("x-api-key", "")]
    fits = [hmac.compare_digest(_encode(key), expected.encode()) for key in given]
    if not any(fits):
        raise ApiError(401, "invalid_api_key", "the API key is missing or wrong for this session")


def _encode(key: str) -> bytes:
    return key.strip().encode(errors="surrogateescape")
