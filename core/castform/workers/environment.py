"""An environment whose code runs in worker processes: the host's stand-in for it."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

from benchmax.auth import StaticBearerAuth
from benchmax.envs import (
    BaseRollout,
    Dataset,
    DatasetSplit,
    Environment,
    Example,
    RolloutAttempt,
    RolloutOutcome,
    RolloutRequest,
    ValidationDiagnostic,
)
from benchmax.envs.group import check_group
from benchmax.envs.model_client import current_request_defaults
from benchmax.envs.observe import RolloutObserver, current_observer
from castform.workers.calls import CANCELLED, Call, WorkerLostError
from castform.workers.describing import RemoteEnvironment, read_loaded
from castform.workers.interpreter import Interpreter
from castform.workers.limits import WorkerLimits
from castform.workers.pool import WorkerPool
from castform.workers.protocol import WORKER_LOST
from castform.workers.values import RemotePayload, decode_value, encode_value


class WorkerEnvironment(Environment[Any, RolloutAttempt]):
    """Runs groups in `workers` processes, each with the whole environment in it.

    Usable from any event loop, and again after `aclose`. A group is run by one process; when that is
    lost, its rollouts end with the reason `worker_lost` and what happened as their error.
    WorkersFailedError when processes die one after the other.
    """

    def __init__(
        self, task: Mapping[str, Any], *, interpreter: Interpreter, workers: int, limits: WorkerLimits
    ) -> None:
        """Start a first process and load the environment there. Raises what loading it raises."""
        self._task = dict(task)
        self._interpreter = interpreter
        self._workers = workers
        self._limits = limits
        self._pool: WorkerPool | None = None
        self._starting = threading.Lock()
        self._end: Callable[[], object] = lambda: None
        self.description: RemoteEnvironment = read_loaded(self._start())
        facts = self.description.facts
        self.scorable_termination_reasons: Set[str] = facts.scorable_termination_reasons
        self.reward_weights = facts.reward_weights
        self.max_concurrent_rollouts = facts.max_concurrent_rollouts

    @property
    def requires_public_model_endpoint(self) -> bool:
        return self.description.facts.requires_public_model_endpoint

    async def create_dataset(
        self, split: DatasetSplit, base_dir: Path, *, max_examples: int | None = None
    ) -> Dataset[Any]:
        """Return the examples that the environment makes in a worker, in every one before its first group.

        Payloads are what they were there, except for objects of classes that JSON does not know:
        those are a `RemotePayload`.
        """
        rows: list[Mapping[str, Any]] = []
        call = Call(
            message={
                "t": "dataset",
                "split": split,
                "base_dir": str(base_dir),
                "max_examples": max_examples,
                "replay": False,
            },
            on_events=rows.extend,
        )
        answer = await self._ask(call)
        if "not_a_dataset" in answer:
            return type(answer["not_a_dataset"], (), {})()  # type: ignore[no-any-return]  # as in process
        return Dataset(_read_example(row) for row in rows)

    async def run_group(self, requests: Sequence[RolloutRequest[Any]]) -> dict[str, RolloutOutcome]:
        """Run a group in one worker; its attempts and model calls are reported here."""
        check_group(requests)
        try:
            answer = await self._ask(self._run_call(requests, attempts=False))
        except WorkerLostError as lost:
            return {r.rollout_id: RolloutOutcome({}, WORKER_LOST, str(lost)) for r in requests}
        return _read_outcomes(answer["outcomes"])

    async def run_rollout(self, request: RolloutRequest[Any]) -> RolloutAttempt:
        """Make one attempt in a worker, without the group's scoring."""
        try:
            (attempt,) = await self._ask(self._run_call([request], attempts=True))
        except WorkerLostError as lost:
            return RolloutAttempt(
                rollout_id=request.rollout_id, termination_reason=WORKER_LOST, rewards={}, error=str(lost)
            )
        return _read_attempt(attempt, request.split)

    def gold(self, example: Example[Any]) -> Any:  # whatever form the author's answers have
        """Return the worker's answer; blocks until it comes."""
        return decode_value(self._ask_now({"t": "gold", "example": _describe_example(example)}))

    def validation_diagnostics(self) -> Sequence[ValidationDiagnostic]:
        """Return the worker's; blocks until they come."""
        return [ValidationDiagnostic(**found) for found in self._ask_now({"t": "diagnostics"})]

    async def check_ready(self) -> None:
        """Ask the environment in one of the workers: all of them are on this machine."""
        await self._ask(Call(message={"t": "ready"}))

    async def aclose(self) -> None:
        """Close the environment in every worker and end the processes."""
        pool, self._pool = self._pool, None
        if pool is not None:
            await asyncio.wrap_future(pool.close())
            self._end()

    def list_pids(self) -> list[int]:
        """Return the ids of the processes that run now."""
        return [] if self._pool is None else self._pool.list_pids()

    def _start(self) -> Mapping[str, Any]:
        pool = WorkerPool(
            task=self._task, interpreter=self._interpreter, limits=self._limits, size=self._workers
        )
        self._end = weakref.finalize(self, pool.kill)  # for an environment that nobody closed
        described = pool.start()
        self._pool = pool
        return described

    def _running_pool(self) -> WorkerPool:
        with self._starting:
            if self._pool is None:
                self._start()
            assert self._pool is not None
            return self._pool

    def _ask_now(self, message: Mapping[str, Any]) -> Any:  # JSON
        call = Call(message=message)
        self._running_pool().submit(call)
        answer = call.answer.result()
        if answer is CANCELLED:  # by the author's code itself
            raise asyncio.CancelledError
        return answer

    async def _ask(self, call: Call) -> Any:  # JSON
        """Await a call. When the caller is cancelled, so is the work, and its end is awaited first."""
        pool = self._running_pool() if self._pool is not None else await asyncio.to_thread(self._running_pool)
        call.answer.set_running_or_notify_cancel()  # from now on only the pool settles it
        waiting = asyncio.wrap_future(call.answer)
        pool.submit(call)
        try:
            answer = await asyncio.shield(waiting)
        except asyncio.CancelledError:
            pool.cancel(call)
            await asyncio.wait({waiting})
            if not waiting.cancelled():
                waiting.exception()  # looked at, so that asyncio does not report it as lost
            raise
        if answer is CANCELLED:
            raise asyncio.CancelledError
        return answer

    def _run_call(self, requests: Sequence[RolloutRequest[Any]], *, attempts: bool) -> Call:
        first = requests[0]
        observer = current_observer()
        call = Call(
            message={
                "t": "run",
                "example": _describe_example(first.example),
                "split": first.split,
                "fields": dict(current_request_defaults()),
                "requests": [_describe_request(request) for request in requests],
                "attempts": attempts,
            },
            weight=len(requests),
        )
        if observer is not None:
            call.on_events = _Relay(observer, first.split).take
        return call


class _Relay:
    """Brings what a worker reports to the observer of a group, on the group's own event loop."""

    def __init__(self, observer: RolloutObserver, split: DatasetSplit) -> None:
        self._observer = observer
        self._split: DatasetSplit = split
        self._loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()
        self._messages: dict[str, list[Any]] = {}

    def take(self, events: Sequence[Mapping[str, Any]]) -> None:
        """Pass events on; called in the pool's thread."""
        try:
            self._loop.call_soon_threadsafe(self._tell, events, context=self._context)
        except RuntimeError:
            return  # the loop is closed: nobody waits for the group any more

    def _tell(self, events: Sequence[Mapping[str, Any]]) -> None:
        for event in events:
            if event["k"] == "attempt":
                self._observer.on_attempt(_read_attempt(event, self._split))
                continue
            rollout_id = event["rollout"]
            messages = [*self._messages.get(rollout_id, ())[: event["known"]], *event["messages"]]
            self._messages[rollout_id] = messages
            request = {**event["request"], "messages": messages}
            self._observer.on_call(rollout_id, request, event["reply"], event["seconds"])


def _describe_request(request: RolloutRequest[Any]) -> dict[str, str]:
    auth = request.model_auth
    if not isinstance(auth, StaticBearerAuth):
        raise TypeError(f"a worker process is given a key (StaticBearerAuth), not {type(auth).__name__}")
    return {
        "rollout_id": request.rollout_id,
        "model": request.model,
        "base_url": request.base_url,
        "key": auth.token,
    }


def _describe_example(example: Example[Any]) -> dict[str, Any]:
    if isinstance(example.payload, RemotePayload):
        return {"id": example.id, "sha256": example.payload.example_sha256}
    return {"id": example.id, "payload": encode_value(example.payload)}


def _read_example(row: Mapping[str, Any]) -> Example[Any]:
    if "payload" in row:
        return Example(row["id"], decode_value(row["payload"]))
    return Example(row["id"], RemotePayload(decode_value(row["view"]), row["sha256"]))


def _read_outcomes(outcomes: Mapping[str, Any] | None) -> dict[str, RolloutOutcome]:
    if outcomes is None:
        return {}  # the host finds them missing, as the worker did
    return {
        rollout_id: outcome and RolloutOutcome(outcome["rewards"], outcome["reason"], outcome["error"])
        for rollout_id, outcome in outcomes.items()
    }


def _read_attempt(event: Mapping[str, Any], split: DatasetSplit) -> RolloutAttempt:
    told = {
        "rollout_id": event["rollout"],
        "termination_reason": event["reason"],
        "rewards": event["rewards"],
        "error": event["error"],
    }
    if event["messages"] is None:
        return RolloutAttempt(**told)
    return BaseRollout(**told, messages=event["messages"], split=split)
