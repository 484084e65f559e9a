"""Run one group of rollouts through an endpoint and keep what happened.

Training, evaluation and validation share it. What environment code does wrong becomes
failed rollouts with a reason; what the endpoint does wrong is raised.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Literal

from benchmax.auth import StaticBearerAuth
from benchmax.envs import Environment, Example, RolloutAttempt, RolloutOutcome, RolloutRequest
from benchmax.envs.model_client import request_defaults
from benchmax.envs.observe import observe_rollouts
from benchmax.envs.termination import describe_error
from castform.calls import ModelCall, Sampling
from castform.endpoint import Endpoint, SessionGrant, SessionSpec
from castform.observed_calls import ObservedCall, make_model_calls
from castform.seeds import derive_seed
from castform.workers.calls import WorkersFailedError

Split = Literal["train", "eval"]

ENVIRONMENT_ERROR = "environment_error"
"""The environment broke its contract or raised where it may not; `error` has the cause."""
ENGINE_ERROR = "engine_error"
"""The endpoint could not answer a call, and no retry made it good: whatever the environment made of
that, it says nothing about the model. `error` has the cause."""
ROLLOUT_TIMEOUT = "rollout_timeout"
"""The group did not settle in time and was cancelled."""
CANCEL_GRACE_SECONDS = 5.0
"""How long environment code may take to end after it was cancelled; then it is left behind."""

logger = logging.getLogger(__name__)


MOST_SCORE = 1e30
"""Most that a reward may be, either side of 0: means and squares of much larger ones overflow."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rollout:
    """One attempt at one example, settled: scored, or failed with a reason, never both."""

    rollout_id: str
    example_id: str
    sample: int
    """Place in the group, from 0."""
    split: Split
    rewards: Mapping[str, float]
    """Named components; empty when it was not scored."""
    score: float | None
    """Weighted sum of the components. None: not scored; a failure is never a number."""
    termination_reason: str
    error: str | None = None
    messages: Sequence[Mapping[str, Any]] = ()
    """The transcript, as the environment reported it or as the last call shows it."""
    calls: Sequence[ModelCall] = ()
    seed: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class RolloutGroup:
    """Siblings: several attempts at one example."""

    group_id: str
    example_id: str
    rollouts: tuple[Rollout, ...]


def score_rewards(rewards: Mapping[str, float], weights: Mapping[str, float]) -> float | None:
    """Return the weighted sum of named components; one that `weights` does not name weighs 1.

    One with the weight 0 is a metric: it takes no part, whatever it is. None when there are no
    components, or one that takes part or the sum is beyond `MOST_SCORE`.
    """
    if not rewards:
        return None
    terms = {name: value for name, value in rewards.items() if weights.get(name, 1.0) != 0}
    score = sum((value * weights.get(name, 1.0) for name, value in terms.items()), 0.0)
    return score if _fits(score) and all(map(_fits, terms.values())) else None


def _fits(value: float) -> bool:
    return abs(value) <= MOST_SCORE  # false for nan too


async def run_group(
    environment: Environment[Any, Any],
    example: Example[Any],
    *,
    endpoint: Endpoint,
    split: Split,
    group_id: str,
    size: int,
    sampling: Sampling,
    seed: int,
    weights: Mapping[str, float],
    enforce_sampling: bool = True,
    max_context_tokens: int | None = None,
    version: int | None = None,
    timeout_seconds: float,
) -> RolloutGroup:
    """Let `environment` make `size` attempts at `example`, each in its own session of `endpoint`.

    Rollout i is called `<group_id>-<i>`, which is also its session, and its session seed is
    `derive_seed(seed, i)`. Sessions are closed whatever happens. An exception or a broken
    contract of the environment, or `timeout_seconds` passing, fails every rollout of the
    group, with the cause in `error`; what the endpoint raises is raised here, and so are
    WorkersFailedError and cancellation, after the environment's tasks have ended.
    """
    specs = [
        SessionSpec(
            session_id=f"{group_id}-{sample}",
            sampling=_with_seed(sampling, derive_seed(seed, sample)),
            enforce_sampling=enforce_sampling,
            max_context_tokens=max_context_tokens,
            version=version,
            model_aliases=("*",),  # agent programs ask for small models of their own by name
        )
        for sample in range(size)
    ]
    observer = _Observer()
    opened: list[str] = []
    try:
        grants = []
        for spec in specs:
            grants.append(await endpoint.open_session(spec))
            opened.append(spec.session_id)
        requests = [_request(example, spec, grant, split) for spec, grant in zip(specs, grants, strict=True)]
        settled = await _settle(environment, requests, grants, observer, timeout_seconds)
        calls = [await endpoint.collect(session_id) for session_id in opened]
    finally:
        await asyncio.shield(_close(endpoint, opened))
    return RolloutGroup(
        group_id=group_id,
        example_id=example.id,
        rollouts=tuple(
            _rollout(spec, sample, example.id, split, settled, recorded, observer, environment, weights)
            for sample, (spec, recorded) in enumerate(zip(specs, calls, strict=True))
        ),
    )


@dataclass(frozen=True, slots=True)
class _Failure:
    """Why a whole group has no outcomes."""

    reason: str
    error: str


_Settled = Mapping[str, RolloutOutcome] | _Failure


class _Observer:
    """Keeps what benchmax reports while the group runs; it outlives a group that fails."""

    def __init__(self) -> None:
        self.began = time.perf_counter()
        self.attempts: dict[str, tuple[RolloutAttempt, float]] = {}
        self.calls: dict[str, list[ObservedCall]] = {}

    def on_attempt(self, attempt: RolloutAttempt) -> None:
        self.attempts[attempt.rollout_id] = (attempt, time.perf_counter() - self.began)

    def on_call(
        self, rollout_id: str, request: Mapping[str, Any], reply: Mapping[str, Any], seconds: float
    ) -> None:
        messages = tuple(request.get("messages") or ())  # the environment goes on writing in its own list
        self.calls.setdefault(rollout_id, []).append(({**request, "messages": messages}, reply, seconds))


async def _settle(
    environment: Environment[Any, Any],
    requests: Sequence[RolloutRequest[Any]],
    grants: Sequence[SessionGrant],
    observer: _Observer,
    timeout_seconds: float,
) -> _Settled:
    with ExitStack() as stack:
        stack.enter_context(observe_rollouts(observer))
        fields = grants[0].request_fields if grants else {}
        if fields:
            stack.enter_context(request_defaults(fields))
        task = asyncio.create_task(_run(environment, requests), name=f"group-{requests[0].rollout_id}")
    try:
        done, _ = await asyncio.wait({task}, timeout=timeout_seconds)
    except asyncio.CancelledError:
        await _end(task)
        raise
    if not done:
        await _end(task)
        return _Failure(
            ROLLOUT_TIMEOUT, f"the group was not done after {timeout_seconds:g} s and was cancelled"
        )
    if task.cancelled():
        return _Failure(ENVIRONMENT_ERROR, "the environment cancelled its own group")
    error = task.exception()
    if isinstance(error, WorkersFailedError):
        raise error
    if error is not None:
        logger.warning("group of %s failed in the environment", requests[0].rollout_id, exc_info=error)
        return _Failure(ENVIRONMENT_ERROR, describe_error(error))
    outcomes: object = task.result()  # run_group may be overridden: look before believing
    expected = [request.rollout_id for request in requests]
    if not isinstance(outcomes, Mapping) or set(outcomes) != set(expected):
        return _Failure(ENVIRONMENT_ERROR, "run_group did not return one outcome for each rollout")
    if not all(isinstance(outcome, RolloutOutcome) for outcome in outcomes.values()):
        return _Failure(ENVIRONMENT_ERROR, "run_group returned something that is not a RolloutOutcome")
    return outcomes


async def _run(
    environment: Environment[Any, Any], requests: Sequence[RolloutRequest[Any]]
) -> Mapping[str, RolloutOutcome]:
    """Await run_group; sys.exit in an override would end the whole program, so it becomes an error."""
    try:
        return await environment.run_group(requests)
    except SystemExit as error:
        raise RuntimeError(f"run_group called sys.exit({error.code!r})") from error


async def _end(task: asyncio.Task[Any]) -> None:
    """Cancel and wait, but not for ever: code that ignores cancellation is left behind, its sessions closed."""
    task.cancel()
    await asyncio.wait({task}, timeout=CANCEL_GRACE_SECONDS)
    if not task.done():
        logger.warning("%s ignores cancellation and was left behind", task.get_name())
        task.add_done_callback(_forget)
    elif not task.cancelled() and task.exception() is not None:
        logger.debug(
            "%s ended with an error after it was cancelled", task.get_name(), exc_info=task.exception()
        )


def _forget(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()  # retrieved, so that asyncio does not report it as lost


async def _close(endpoint: Endpoint, session_ids: Sequence[str]) -> None:
    ends = await asyncio.gather(*map(endpoint.close_session, session_ids), return_exceptions=True)
    for session_id, end in zip(session_ids, ends, strict=True):
        if isinstance(end, BaseException):
            logger.warning("session %s could not be closed", session_id, exc_info=end)


def _request(
    example: Example[Any], spec: SessionSpec, grant: SessionGrant, split: Split
) -> RolloutRequest[Any]:
    return RolloutRequest(
        rollout_id=spec.session_id,
        example=example,
        model=grant.model,
        base_url=grant.base_url,
        model_auth=StaticBearerAuth(grant.api_key),
        split=split,
    )


def _with_seed(sampling: Sampling, seed: int) -> Sampling:
    return Sampling(
        max_new_tokens=sampling.max_new_tokens,
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        top_k=sampling.top_k,
        seed=seed,
        stop=sampling.stop,
        stop_token_ids=sampling.stop_token_ids,
    )


def _rollout(
    spec: SessionSpec,
    sample: int,
    example_id: str,
    split: Split,
    settled: _Settled,
    recorded: Sequence[ModelCall],
    observer: _Observer,
    environment: Environment[Any, Any],
    weights: Mapping[str, float],
) -> Rollout:
    rollout_id = spec.session_id
    attempt, seconds = observer.attempts.get(rollout_id, (None, time.perf_counter() - observer.began))
    calls = recorded or make_model_calls(rollout_id, observer.calls.get(rollout_id, ()))
    rewards: Mapping[str, float] = {}
    score = None
    reason: str
    error: str | None
    if isinstance(settled, _Failure):
        reason, error = settled.reason, settled.error
    else:
        outcome = settled[rollout_id]
        reason, error = outcome.termination_reason, outcome.error
        unanswered = next((call for call in recorded if call.error is not None), None)
        if unanswered is not None:
            reason, error = ENGINE_ERROR, f"call {unanswered.index}: {unanswered.error}"
        elif reason in environment.scorable_termination_reasons:
            score = score_rewards(outcome.rewards, {**environment.reward_weights, **weights})
            fit = {name: value for name, value in outcome.rewards.items() if _fits(value)}
            rewards = fit if score is not None else {}
            if score is None and outcome.rewards:
                reason, error = (
                    "reward_error",
                    error or f"the rewards or their weighted sum are beyond {MOST_SCORE:g} or not finite",
                )
    return Rollout(
        rollout_id=rollout_id,
        example_id=example_id,
        sample=sample,
        split=split,
        rewards=rewards,
        score=score,
        termination_reason=reason,
        error=error,
        messages=_transcript(attempt, calls),
        calls=calls,
        seed=spec.sampling.seed,
        seconds=seconds,
    )


def _transcript(attempt: RolloutAttempt | None, calls: Sequence[ModelCall]) -> Sequence[Mapping[str, Any]]:
    messages = getattr(attempt, "messages", None)  # BaseRollout has them, a bare attempt does not
    if messages:
        return tuple(messages)
    if calls:
        return (*calls[-1].messages, calls[-1].reply)
    return ()
