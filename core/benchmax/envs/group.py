"""Run the attempts of one group side by side and keep what each of them came to."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from benchmax.envs.logging import rollout_context
from benchmax.envs.observe import current_observer
from benchmax.envs.shared_types import PayloadT, RolloutAttempt, RolloutFailure, RolloutRequest
from benchmax.envs.termination import FINISHED

if TYPE_CHECKING:
    from benchmax.envs.environment import AttemptT, Environment

logger = logging.getLogger(__name__)


async def run_attempts(
    environment: Environment[PayloadT, AttemptT], requests: Sequence[RolloutRequest[PayloadT]]
) -> list[AttemptT | RolloutAttempt]:
    """Run every request in a task of its own and return the attempts in request order.

    A RolloutFailure becomes an attempt with empty rewards, its reason and its message.
    Any other exception, or a result that is no attempt at this request, is raised, but
    only once all siblings have settled; further ones are logged. When the caller is
    cancelled, all tasks are cancelled and awaited first.
    """
    check_group(requests)
    tasks = [
        asyncio.create_task(_run_attempt(environment, request), name=f"benchmax-rollout-{request.rollout_id}")
        for request in requests
    ]
    # When this is cancelled, gather cancels every task and ends once all of them have.
    results = await asyncio.gather(*tasks, return_exceptions=True)
    return _without_contract_errors(requests, results)


def check_group(requests: Sequence[RolloutRequest[PayloadT]]) -> None:
    """Raise ValueError unless the requests are a group: some, unlike ids, one example, one split."""
    if not requests:
        raise ValueError("a group needs at least one request")
    ids = [request.rollout_id for request in requests]
    repeated = sorted({rollout_id for rollout_id in ids if ids.count(rollout_id) > 1})
    if repeated:
        raise ValueError(f"duplicate rollout IDs in the group: {repeated}")
    examples = sorted({request.example.id for request in requests})
    if len(examples) > 1:
        raise ValueError(f"a group must use one example, but it has {examples}")
    splits = sorted({request.split for request in requests})
    if len(splits) > 1:
        raise ValueError(f"a group must use one split, but it has {splits}")


async def _run_attempt(
    environment: Environment[PayloadT, AttemptT], request: RolloutRequest[PayloadT]
) -> AttemptT | RolloutAttempt:
    slots = environment.rollout_slots()
    with rollout_context(request.rollout_id):
        if slots is None:
            attempt = await _settled_attempt(environment, request)
        else:
            async with slots:
                attempt = await _settled_attempt(environment, request)
        if attempt.termination_reason != FINISHED:
            logger.info(
                "benchmax.rollout.terminated rollout_id=%s termination_reason=%s error=%s",
                attempt.rollout_id,
                attempt.termination_reason,
                attempt.error,
            )
        observer = current_observer()
        if observer is not None:
            observer.on_attempt(attempt)
    return attempt


async def _settled_attempt(
    environment: Environment[PayloadT, AttemptT], request: RolloutRequest[PayloadT]
) -> AttemptT | RolloutAttempt:
    try:
        attempt = await environment.run_rollout(request)
    except RolloutFailure as failure:
        return RolloutAttempt(
            rollout_id=request.rollout_id,
            termination_reason=failure.termination_reason,
            rewards={},
            error=failure.message,
        )
    except SystemExit as error:  # out of a task it would end the whole program, without a word
        raise RuntimeError(f"the environment called sys.exit({error.code!r})") from error
    _check_attempt(environment, request, attempt)
    return attempt


def _check_attempt(
    environment: Environment[PayloadT, AttemptT], request: RolloutRequest[PayloadT], attempt: object
) -> None:
    if not isinstance(attempt, RolloutAttempt):
        raise TypeError(
            f"{type(environment).__name__}.run_rollout returned {type(attempt).__name__}, expected RolloutAttempt"
        )
    if attempt.rollout_id != request.rollout_id:
        raise ValueError(
            f"run_rollout returned the wrong rollout ID: {attempt.rollout_id!r} instead of {request.rollout_id!r}"
        )
    scorable = attempt.termination_reason in environment.scorable_termination_reasons
    if not scorable and any((attempt.rewards or {}).values()):
        raise ValueError(
            f"failed rollout {attempt.rollout_id!r} ({attempt.termination_reason}) has non-zero rewards"
        )


def _without_contract_errors(
    requests: Sequence[RolloutRequest[PayloadT]], results: Sequence[AttemptT | RolloutAttempt | BaseException]
) -> list[AttemptT | RolloutAttempt]:
    attempts: list[AttemptT | RolloutAttempt] = []
    first: BaseException | None = None
    for request, result in zip(requests, results, strict=True):
        if not isinstance(result, BaseException):
            attempts.append(result)
        elif first is None:
            first = result
        else:
            logger.error("rollout %s broke its environment too", request.rollout_id, exc_info=result)
    if first is not None:
        raise first
    return attempts
