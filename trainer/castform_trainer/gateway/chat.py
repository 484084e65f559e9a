"""Answer chat requests of a session: render, splice, sample, record, then reply."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from castform.calls import ModelCall
from castform.errors import RunFailedError
from castform.seeds import derive_seed
from castform_trainer.engines.contract import Engine, Generation, GenerationCancelled
from castform_trainer.gateway.completion import Choice
from castform_trainer.gateway.errors import ApiError, ContextBudgetError
from castform_trainer.gateway.messages import normalize_messages
from castform_trainer.gateway.record import CallLog
from castform_trainer.gateway.replies import ReplyReader, check_generation
from castform_trainer.gateway.request import ChatRequest
from castform_trainer.gateway.sampling import settle_sampling
from castform_trainer.gateway.sessions import Fault, Inflight, Session
from castform_trainer.gateway.splice import Prompt, Served, build_prompt
from castform_trainer.gateway.template import TemplateRenderer

RETRY_HEADER = "x-stainless-retry-count"
LINEAGE_HEADERS = ("X-Castform-Lineage", "X-Claude-Code-Agent-Id", "Thread-Id")
"""Where a client says which of its agents asks: ours, claude-code's, codex's."""
LONGEST_LINEAGE = 200  # characters
NO_REPLY: Mapping[str, Any] = {"role": "assistant", "content": None}
NOTHING = Generation(ids=(), logprobs=(), finish_reason="abort", version=0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What the client gets."""

    choices: tuple[Choice, ...]
    request: ChatRequest
    digest: str
    """Names the answer: the same for every time it is given."""
    created: int
    stop_texts: tuple[str | None, ...]
    """The stop text that ended each choice, None where none did."""


class ChatService:
    """Everything between a request body and its answer. Used on the gateway's loop only."""

    def __init__(
        self,
        engine: Engine,
        renderer: TemplateRenderer,
        reader: ReplyReader,
        log: CallLog | None,
        *,
        retry_grace_seconds: float,
    ) -> None:
        self._engine = engine
        self._renderer = renderer
        self._reader = reader
        self._log = log
        self._grace = retry_grace_seconds
        self.failure: RunFailedError | None = None
        """Set once the log cannot be written; every later request is refused with it."""

    def find_first_try(
        self, session: Session, request: ChatRequest, headers: Mapping[str, str]
    ) -> Inflight | None:
        """Return what answers the request that this one repeats; None for a new one. Raises ApiError."""
        is_retry = headers.get(RETRY_HEADER, "0") not in ("", "0")
        return session.find_first_try(request, _read_key(headers), is_retry=is_retry)

    def begin(self, session: Session, request: ChatRequest, headers: Mapping[str, str]) -> Inflight:
        """Start to sample for a new request. Raises ApiError."""
        lineage = next((headers[name] for name in LINEAGE_HEADERS if name in headers), None)
        return self._start(session, request, _read_key(headers), lineage and lineage[:LONGEST_LINEAGE])

    async def answer(self, session: Session, request: ChatRequest, work: Inflight) -> Answer:
        """Answer a request that has begun. ApiError; a cancelled caller counts as a client that went away."""
        await self._wait(session, work)
        calls = self._settle(session, work)
        logprobs = [
            self._reader.list_logprobs(g) if request.logprobs and g is not None else None
            for g in work.generations
        ]
        stops = [
            None if g is None else self._reader.find_stop_text(g, used.stop)
            for g, used in zip(work.generations, work.samplings, strict=True)
        ]
        return Answer(
            choices=tuple(zip(calls, logprobs, strict=True)),
            request=request,
            digest=name_answer(session, work),
            created=int(time.time()),
            stop_texts=tuple(stops),
        )

    def leave(self, session: Session, work: Inflight) -> None:
        """Say that a client has gone: unless it asks again soon, its reply is stopped and recorded as aborted."""
        loop = asyncio.get_running_loop()
        loop.call_later(self._grace, self._abort_unless_retried, session, work)

    def count_tokens(self, session: Session, request: ChatRequest) -> int:
        """Return how many prompt tokens a request would have now. Nothing is recorded."""
        return len(self._build_prompt(session, request).ids)

    async def abort(self, session: Session) -> None:
        """Stop what runs in a session and record it as aborted."""
        running = [work for work in session.inflight if work.calls is None]
        for work in running:
            self._abort_one(session, work)
        tasks = [work.task for work in running if work.task is not None]
        await asyncio.gather(*tasks, return_exceptions=True)

    def list_calls(self, session: Session) -> list[ModelCall]:
        """Return a session's records, those of requests that failed for good last.

        Raises RunFailedError when the log cannot be written.
        """
        if self.failure is not None:
            raise self.failure
        return [*session.calls, *(fault.call for fault in session.faults)]

    def _start(
        self, session: Session, request: ChatRequest, key: str | None, lineage: str | None
    ) -> Inflight:
        if self.failure is not None:
            raise ApiError(500, "recording_failed", str(self.failure))
        prompt = self._build_prompt(session, request)
        room = self._find_room(session, prompt)
        spec = session.spec
        used, overrides = settle_sampling(request.asked, spec.sampling, enforce=spec.enforce_sampling)
        loop = asyncio.get_running_loop()
        work = Inflight(
            request=request,
            index=session.next_index,
            idempotency_key=key,
            prompt=prompt,
            samplings=tuple(
                replace(
                    used,
                    max_new_tokens=min(used.max_new_tokens, room),
                    seed=_derive_call_seed(session, request, session.next_index, choice),
                )
                for choice in range(request.asked.n)
            ),
            overrides=overrides,
            generations=[None] * request.asked.n,
            lineage=lineage,
            started=loop.time(),
        )
        session.next_index += 1
        session.inflight.append(work)
        work.task = loop.create_task(self._sample(session, work))
        work.task.add_done_callback(lambda task: self._end(session, work, task))
        return work

    def _build_prompt(self, session: Session, request: ChatRequest) -> Prompt:
        return build_prompt(
            session.history,
            request.messages,
            request.digests,
            tools=request.tools,
            options=request.options,
            renderer=self._renderer,
            codec=self._reader.codec,
        )

    def _find_room(self, session: Session, prompt: Prompt) -> int:
        limits = (self._engine.max_context_tokens, session.spec.max_context_tokens)
        limit = min(value for value in limits if value is not None)
        room = limit - len(prompt.ids)
        if room < 1:
            raise ContextBudgetError(len(prompt.ids), limit)
        if not prompt.ids:
            raise ApiError(400, "chat_template_error", "the chat template rendered an empty prompt")
        return room

    async def _sample(self, session: Session, work: Inflight) -> None:
        async def sample_one(choice: int) -> None:
            try:
                work.generations[choice] = await self._engine.generate(
                    work.prompt.ids, work.samplings[choice], version=session.spec.version
                )
            except GenerationCancelled as cancelled:
                work.generations[choice] = cancelled.partial
                raise

        try:
            if work.request.asked.n == 1:
                await sample_one(0)
            else:
                async with asyncio.TaskGroup() as group:
                    for choice in range(work.request.asked.n):
                        group.create_task(sample_one(choice))
        except asyncio.CancelledError:
            self._settle(session, work, aborted=True)
            raise
        except BaseException as error:
            first = error.exceptions[0] if isinstance(error, BaseExceptionGroup) else error
            if not isinstance(first, Exception):
                raise
            failure = ApiError(500, "engine_error", f"the engine failed: {type(first).__name__}: {first}")
            self._fail(session, work, failure)
            raise failure from first

    async def _wait(self, session: Session, work: Inflight) -> None:
        assert work.task is not None
        work.waiters += 1
        try:
            await asyncio.shield(work.task)
        except asyncio.CancelledError:
            if work.task.cancelled():
                raise ApiError(503, "session_closed", "the session ended before the reply did") from None
            self.leave(session, work)
            raise
        finally:
            work.waiters -= 1

    def _abort_unless_retried(self, session: Session, work: Inflight) -> None:
        if not work.waiters and work.calls is None:
            self._abort_one(session, work)

    def _abort_one(self, session: Session, work: Inflight) -> None:
        assert work.task is not None
        work.abandoned = True
        if not work.task.cancel():
            self._end(session, work, work.task)

    def _end(self, session: Session, work: Inflight, task: asyncio.Task[None]) -> None:
        """Record a reply that nobody waited for until its end, or that was cancelled before it began."""
        if not task.cancelled() and task.exception() is not None:
            return
        if work.abandoned and work.calls is None:
            self._settle(session, work, aborted=True)

    def _fail(self, session: Session, work: Inflight, error: ApiError) -> None:
        """Record that a request has no answer; a later try that succeeds makes it good."""
        if work not in session.inflight:
            return
        session.inflight.remove(work)
        call = self._make_record(session, work, 0, finish_reason="error", error=error.message)
        with suppress(RunFailedError):  # kept in `failure`, which every later request is answered with
            self._write([call])
        _forget_faults(session, work)
        fault = Fault(body_digest=work.request.body_digest, call=call, next_index=session.next_index)
        session.faults.append(fault)

    def _write(self, calls: Sequence[ModelCall]) -> None:
        """Append to the log. RunFailedError, which then stays in `failure`, when the disk refuses.

        After that nothing more is written: a log with a hole in it would be taken for a whole one.
        """
        if self.failure is not None:
            raise self.failure
        if self._log is None:
            return
        try:
            self._log.append(calls)
        except RunFailedError as error:
            self.failure = error
            raise

    def _settle(self, session: Session, work: Inflight, *, aborted: bool = False) -> list[ModelCall]:
        """Record a request once; return its records. ApiError when they cannot be kept."""
        if work.calls is not None:
            return list(work.calls)
        seconds = asyncio.get_running_loop().time() - work.started
        calls, served = [], []
        for choice in range(len(work.generations)):
            generation = work.generations[choice] or NOTHING
            if not aborted:
                self._check(session, work, generation)
            call, reply = self._make_call(session, work, choice, generation, aborted, seconds)
            calls.append(call)
            served.append(reply)
        try:
            self._write(calls)
        except RunFailedError as error:
            if aborted:
                return calls
            raise ApiError(500, "recording_failed", str(error)) from error
        work.calls = calls
        session.calls += calls
        if not aborted:
            session.history.remember(work.request.digests, served)
            _forget_faults(session, work)
        return calls

    def _check(self, session: Session, work: Inflight, generation: Generation) -> None:
        try:
            check_generation(generation)
            if generation.finish_reason == "abort":
                raise ApiError(503, "generation_aborted", "the engine stopped before the reply ended")
        except ApiError as error:
            self._fail(session, work, error)
            raise

    def _make_call(
        self,
        session: Session,
        work: Inflight,
        choice: int,
        generation: Generation,
        aborted: bool,
        seconds: float,
    ) -> tuple[ModelCall, Served]:
        request, prompt = work.request, work.prompt
        reply, finish = self._reader.read(
            generation,
            prompt_text=prompt.text,
            stop=work.samplings[choice].stop,
            tools=request.tools,
            call_key=_name_call(session, work, choice),
        )
        call = self._make_record(
            session,
            work,
            choice,
            reply=reply,
            finish_reason="abort" if aborted else finish,
            sampled_ids=tuple(generation.ids),
            logprobs=tuple(generation.logprobs),
            completion_tokens=len(generation.ids),
            version=generation.version,
            seconds=seconds,
        )
        served = Served(
            prompt_text=prompt.text,
            prompt_ids=prompt.ids,
            sampled_ids=tuple(generation.ids),
            end_text=self._reader.read_end_text(generation),
            message=normalize_messages([reply])[0],
        )
        return call, served

    def _make_record(self, session: Session, work: Inflight, choice: int, **reply: Any) -> ModelCall:
        """Return the record of a request; `reply` are the fields of `ModelCall` about its answer."""
        return ModelCall(
            call_id=_name_call(session, work, choice),
            session_id=session.spec.session_id,
            index=work.index,
            choice=choice,
            dialect=work.request.dialect,
            messages=work.request.raw_messages,
            tools=work.request.tools,
            prompt_ids=work.prompt.ids,
            prompt_tokens=len(work.prompt.ids),
            sampling=work.samplings[choice],
            overrides=work.overrides,
            splice=work.prompt.splice,
            lineage=work.lineage,
            **{"reply": NO_REPLY, **reply},
        )


def _read_key(headers: Mapping[str, str]) -> str | None:
    return headers.get("Idempotency-Key") or None


def _forget_faults(session: Session, work: Inflight) -> None:
    session.faults = [fault for fault in session.faults if not fault.is_retried_by(work)]


def name_answer(session: Session, work: Inflight) -> str:
    """Return what the ids of an answer are made of; it is known before the answer is."""
    return hashlib.blake2b(_name_call(session, work, 0).encode(), digest_size=12).hexdigest()


def _name_call(session: Session, work: Inflight, choice: int) -> str:
    return f"{session.spec.session_id}/{work.index}/{choice}"


def _derive_call_seed(session: Session, request: ChatRequest, index: int, choice: int) -> int:
    """Return the seed of one reply: the session's own, or the client's where it may choose."""
    if request.asked.seed is not None and not session.spec.enforce_sampling:
        return derive_seed(request.asked.seed, choice)
    return derive_seed(session.spec.sampling.seed, index, choice)
