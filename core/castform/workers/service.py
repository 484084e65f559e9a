"""The worker's side of the protocol: one environment, and whatever the host asks of it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmax.auth import StaticBearerAuth
from benchmax.envs import Dataset, Example, RolloutOutcome, RolloutRequest
from benchmax.envs.group import run_attempts
from benchmax.envs.model_client import request_defaults
from benchmax.envs.observe import observe_rollouts
from castform.plugins.fingerprints import hash_example
from castform.workers.channel import Channel
from castform.workers.exceptions import describe_exception
from castform.workers.protocol import Frame, FrameTooLargeError
from castform.workers.pulse import Pulse
from castform.workers.reporting import CallReporter, describe_attempt
from castform.workers.slots import HostSlots
from castform.workers.values import can_leave, decode_value, encode_value

if TYPE_CHECKING:
    from benchmax.envs import Environment

EXAMPLES_A_FRAME = 200
CLOSE_SECONDS = 4.0

logger = logging.getLogger(__name__)


class Service:
    """Answers the host's calls, each in a task of its own, on the running event loop."""

    def __init__(self, environment: Environment[Any, Any], channel: Channel) -> None:
        self._environment = environment
        self._channel = channel
        self._loop = asyncio.get_running_loop()
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._examples: dict[tuple[str, str], Example[Any]] = {}
        """By split and id: those whose payloads cannot leave this process."""
        self._prepared: asyncio.Task[None] | None = None
        """The last dataset that was asked for; what comes after it waits for it."""
        self._closing = asyncio.Event()
        self._inbox: deque[Frame] = deque()
        self._slots = HostSlots(channel)
        self._pulse = Pulse(channel)
        if environment.max_concurrent_rollouts is not None:
            environment.rollout_slots = self._make_slot  # type: ignore[method-assign]  # counted by the host

    async def serve(self) -> None:
        """Work until the host says close; then close the environment."""
        self._channel.start(self._receive)
        await self._closing.wait()
        for task in self._tasks.values():
            task.cancel()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await asyncio.gather(*self._tasks.values(), return_exceptions=True)
                await self._close_environment()

    def _receive(self, message: Frame) -> None:
        """Take a message in the channel's thread: what the loop has not come to can be given back."""
        if message["t"] == "take_back":
            self._give_back()
            return
        self._inbox.append(message)
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._dispatch)

    def _give_back(self) -> None:
        """Answer every run that is not begun as untouched."""
        kept: list[Frame] = []
        while self._inbox:
            with contextlib.suppress(IndexError):  # the loop took it
                message = self._inbox.popleft()
                if message["t"] == "run":
                    self._channel.send({"t": "answer", "call": message["call"], "untouched": True})
                else:
                    kept.append(message)
        self._inbox.extendleft(reversed(kept))

    def _dispatch(self) -> None:
        try:
            message = self._inbox.popleft()
        except IndexError:
            return  # it was given back
        kind = message["t"]
        if kind == "close":
            self._closing.set()
        elif kind == "slot":
            self._slots.grant(message["ticket"])
        elif kind == "cancel":
            task = self._tasks.get(message["call"])
            if task is not None:
                task.cancel()
        else:
            self._start(message)

    def _start(self, message: Frame) -> None:
        call = message["call"]
        task = self._loop.create_task(self._answer(message, self._prepared), name=f"call-{call}")
        self._tasks[call] = task
        task.add_done_callback(lambda task: self._tasks.pop(call, None))
        if message["t"] == "dataset":
            self._prepared = task

    async def _answer(self, message: Frame, prepared: asyncio.Task[None] | None) -> None:
        handlers: dict[str, Callable[[Frame], Awaitable[Any]]] = {
            "dataset": self._create_dataset,
            "gold": self._read_gold,
            "diagnostics": self._read_diagnostics,
            "ready": self._check_ready,
            "run": self._run_group,
        }
        answer: dict[str, Any]
        try:
            if prepared is not None:
                await asyncio.wait({prepared})
            answer = {"value": await handlers[message["t"]](message)}
        except asyncio.CancelledError:
            answer = {"cancelled": True}
        except BaseException as error:  # noqa: BLE001 - the author's code; without an answer the host waits forever
            answer = {"error": describe_exception(error)}
        try:
            self._channel.send({"t": "answer", "call": message["call"], **answer})
        except (TypeError, ValueError, RecursionError) as error:
            what = "is too large" if isinstance(error, FrameTooLargeError) else "cannot be sent"
            described = describe_exception(ValueError(f"the environment's answer {what}: {error}"))
            self._channel.send({"t": "answer", "call": message["call"], "error": described})

    async def _create_dataset(self, message: Frame) -> Any:  # JSON
        split = message["split"]
        dataset: object = await self._environment.create_dataset(
            split, Path(message["base_dir"]), max_examples=message["max_examples"]
        )
        if not isinstance(dataset, Dataset):
            return {"not_a_dataset": type(dataset).__name__}
        rows: list[Any] = []
        for example in dataset:
            if can_leave(example.payload):
                rows.append({"id": example.id, "payload": encode_value(example.payload)})
            else:
                self._examples[split, example.id] = example
                view = encode_value(_as_dict(example.payload))
                rows.append({"id": example.id, "view": view, "sha256": hash_example(example)})
            if len(rows) == EXAMPLES_A_FRAME:
                self._send_examples(message, rows)
                rows = []
        self._send_examples(message, rows)
        return {}

    def _send_examples(self, message: Frame, rows: list[Any]) -> None:
        if rows and not message["replay"]:
            self._channel.send({"t": "examples", "call": message["call"], "examples": rows})

    async def _read_gold(self, message: Frame) -> Any:  # JSON
        return encode_value(self._environment.gold(self._find_example(message)))

    async def _read_diagnostics(self, message: Frame) -> Any:  # JSON
        return [
            {"severity": d.severity, "code": d.code, "message": d.message, "location": d.location}
            for d in self._environment.validation_diagnostics()
        ]

    async def _check_ready(self, message: Frame) -> None:
        await self._environment.check_ready()

    async def _run_group(self, message: Frame) -> Any:  # JSON
        requests = self._make_requests(message)
        reporter = CallReporter(message["call"], self._channel, self._pulse.note_progress)
        with ExitStack() as stack:
            stack.enter_context(observe_rollouts(reporter))
            if message["fields"]:
                stack.enter_context(request_defaults(message["fields"]))
            try:
                if message["attempts"]:
                    attempts = await run_attempts(self._environment, requests)
                    return [describe_attempt(attempt) for attempt in attempts]
                return _describe_outcomes(await self._environment.run_group(requests), requests)
            except SystemExit as error:
                raise RuntimeError(f"run_group called sys.exit({error.code!r})") from error
            finally:
                reporter.flush()

    def _make_requests(self, message: Frame) -> list[RolloutRequest[Any]]:
        example = self._find_example(message)
        return [
            RolloutRequest(
                rollout_id=request["rollout_id"],
                example=example,
                model=request["model"],
                base_url=request["base_url"],
                model_auth=StaticBearerAuth(request["key"]),
                split=message["split"],
            )
            for request in message["requests"]
        ]

    def _find_example(self, message: Frame) -> Example[Any]:
        example = message["example"]
        if "payload" in example:
            return Example(example["id"], decode_value(example["payload"]))
        for split in (message.get("split"), "train", "eval"):
            found = self._examples.get((str(split), example["id"]))
            if found is not None and hash_example(found) == example["sha256"]:
                return found
        raise LookupError(
            f"example {example['id']!r} is not in this worker: create_dataset gives others each time that it is "
            "called, and their payloads hold objects that cannot be sent"
        )

    def _make_slot(self) -> Any:  # an async context manager, as a semaphore is
        type(self._environment).rollout_slots(self._environment)  # a limit that is none raises here
        return self._slots.make()

    async def _close_environment(self) -> None:
        try:
            await self._environment.aclose()
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the author's code
            logger.warning("the environment's aclose failed: %s: %s", type(error).__name__, error)


def _describe_outcomes(outcomes: object, requests: list[RolloutRequest[Any]]) -> Any:  # JSON
    """Return outcomes as JSON; of what is none, as much as lets the host find the same fault."""
    if not isinstance(outcomes, Mapping) or set(outcomes) != {request.rollout_id for request in requests}:
        return {"outcomes": None}
    if not all(isinstance(outcome, RolloutOutcome) for outcome in outcomes.values()):
        return {"outcomes": dict.fromkeys(outcomes)}
    return {
        "outcomes": {
            rollout_id: {"rewards": o.rewards, "reason": o.termination_reason, "error": o.error}
            for rollout_id, o in outcomes.items()
        }
    }


def _as_dict(payload: object) -> object:
    return dict(payload) if isinstance(payload, Mapping) else payload
