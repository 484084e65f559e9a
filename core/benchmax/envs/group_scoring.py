"""Turn the attempts of a group into outcomes: own rewards, group rewards, and who gets none."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from benchmax.envs.logging import group_context, rollout_context
from benchmax.envs.reward_values import check_rewards
from benchmax.envs.shared_types import PayloadT, RolloutAttempt, RolloutFailure, RolloutOutcome
from benchmax.envs.termination import FINISHED, describe_error, settle_termination_reason

if TYPE_CHECKING:
    from benchmax.envs.environment import AttemptT, Environment

logger = logging.getLogger(__name__)


async def score_group(
    environment: Environment[PayloadT, AttemptT], attempts: Sequence[AttemptT | RolloutAttempt]
) -> dict[str, RolloutOutcome]:
    """Return the outcomes of the attempts, in their order.

    A fault of one rollout's rewards costs that rollout alone; when the group hook raises
    or answers for the wrong ids, no rollout it was asked about is scored.
    """
    scorable = [attempt for attempt in attempts if _takes_part(environment, attempt)]
    scored = await _score_together(environment, scorable) if scorable else {}
    return {
        attempt.rollout_id: scored.get(attempt.rollout_id) or _own_outcome(attempt) for attempt in attempts
    }


async def _score_together(
    environment: Environment[PayloadT, AttemptT], scorable: Sequence[AttemptT | RolloutAttempt]
) -> dict[str, RolloutOutcome]:
    try:
        group_rewards = await _ask_group_hook(environment, scorable)
    except RolloutFailure as failure:
        return {attempt.rollout_id: _failed_outcome(attempt, failure) for attempt in scorable}
    except (Exception, SystemExit) as error:
        # the author's hook: its defect fails the group's scores, not the run
        logger.warning("compute_group_rewards failed", exc_info=error)
        defect = RolloutFailure("group_reward_error", describe_error(error))
        return {attempt.rollout_id: _failed_outcome(attempt, defect) for attempt in scorable}
    return {
        attempt.rollout_id: _merged_outcome(attempt, group_rewards.get(attempt.rollout_id))
        for attempt in scorable
    }


def _takes_part(environment: Environment[PayloadT, AttemptT], attempt: RolloutAttempt) -> bool:
    """Whether the group hook sees the attempt.

    One whose own scoring failed (an error and an empty reward map) does not, whatever
    ended it: it could otherwise earn group rewards that a finished one is denied.
    """
    if attempt.termination_reason not in environment.scorable_termination_reasons:
        return False
    scoring_failed = attempt.error is not None and attempt.rewards is not None and not attempt.rewards
    return not scoring_failed


async def _ask_group_hook(
    environment: Environment[PayloadT, AttemptT], scorable: Sequence[Any]
) -> Mapping[str, object]:  # values are checked one rollout at a time
    ids = [attempt.rollout_id for attempt in scorable]
    with group_context(ids):
        answer = await environment.compute_group_rewards(scorable)
    if answer is None:
        return {}
    if not isinstance(answer, Mapping):
        raise TypeError(f"compute_group_rewards must return a mapping or None, not {type(answer).__name__}")
    missing = sorted(set(ids) - set(answer))
    unknown = sorted((key for key in answer if key not in set(ids)), key=repr)
    if missing or unknown:
        raise ValueError(
            f"compute_group_rewards returned misaligned rollout IDs: missing={missing}, unknown={unknown}"
        )
    return answer


def _merged_outcome(attempt: RolloutAttempt, group_rewards: object) -> RolloutOutcome:
    try:
        rewards = _merge_rewards(attempt, group_rewards)
    except (TypeError, ValueError) as error:
        with rollout_context(attempt.rollout_id):
            logger.warning("rewards of rollout %s cannot be used: %s", attempt.rollout_id, error)
        return _failed_outcome(attempt, RolloutFailure("group_reward_error", describe_error(error)))
    return RolloutOutcome(rewards, attempt.termination_reason, attempt.error)


def _merge_rewards(attempt: RolloutAttempt, group_rewards: object) -> dict[str, float]:
    own = dict(attempt.rewards or {})
    shared = {} if group_rewards is None else check_rewards(group_rewards)
    repeated = sorted(own.keys() & shared.keys())
    if repeated:
        raise ValueError(f"compute_reward and compute_group_rewards both return {repeated}")
    merged = own | shared
    if not merged and attempt.termination_reason == FINISHED:
        raise ValueError(
            f"rollout {attempt.rollout_id!r} has no rewards; implement compute_reward or compute_group_rewards"
        )
    return merged


def _own_outcome(attempt: RolloutAttempt) -> RolloutOutcome:
    return RolloutOutcome(attempt.rewards or {}, attempt.termination_reason, attempt.error)


def _failed_outcome(attempt: RolloutAttempt, failure: RolloutFailure) -> RolloutOutcome:
    reason = settle_termination_reason(attempt.termination_reason, failure.termination_reason)
    return RolloutOutcome({}, reason, attempt.error or failure.message)
