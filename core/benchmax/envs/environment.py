"""The one class that every environment derives from."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence, Set
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from benchmax.envs.dataset import Dataset
from benchmax.envs.group import run_attempts
from benchmax.envs.group_scoring import score_group
from benchmax.envs.loop_local import LoopLocal
from benchmax.envs.reward_values import RewardMap
from benchmax.envs.shared_types import (
    DatasetSplit,
    Example,
    PayloadT,
    RolloutAttempt,
    RolloutOutcome,
    RolloutRequest,
    ValidationDiagnostic,
)
from benchmax.envs.termination import SCORABLE, settle_termination_reason

__all__ = ["AttemptT", "Environment", "settle_termination_reason"]

AttemptT = TypeVar("AttemptT", bound=RolloutAttempt)


class Environment(ABC, Generic[PayloadT, AttemptT]):
    """Examples, a way to attempt one through a model endpoint, and rewards for the attempt.

    Only `create_dataset` and `run_rollout` must be written. An environment reaches the
    model over HTTP and nothing else, so any agent in any sandbox can be one.
    """

    scorable_termination_reasons: Set[str] = SCORABLE
    """Attempts that end for one of these are scored; every other reason means no rewards."""

    reward_weights: Mapping[str, float] = MappingProxyType({})
    """Weight of a reward component in the score where the run does not say; one that is not named weighs 1."""

    max_concurrent_rollouts: int | None = None
    """Most rollouts of this environment at the same time, over all groups. None: no limit."""

    @abstractmethod
    async def create_dataset(
        self, split: DatasetSplit, base_dir: Path, *, max_examples: int | None = None
    ) -> Dataset[PayloadT]:
        """Return the examples of a split; data files are looked up under `base_dir`."""

    @abstractmethod
    async def run_rollout(self, request: RolloutRequest[PayloadT]) -> AttemptT:
        """Make one attempt.

        Raise RolloutFailure to end it with a reason. Any other exception means that the
        environment is broken, and stops the run once the siblings are done.
        """

    async def compute_group_rewards(self, rollouts: Sequence[AttemptT]) -> Mapping[str, RewardMap] | None:
        """Return more rewards for attempts that are best judged beside each other.

        Gets every attempt of the group that can be scored; keys of the result are exactly
        their rollout ids. Components add to the attempt's own and may not repeat a name.
        """
        return None

    def validation_diagnostics(self) -> Sequence[ValidationDiagnostic]:
        """Return what is known to be wrong with this set-up before anything runs."""
        return ()

    def gold(self, example: Example[PayloadT]) -> Any:  # Any: whatever form the author's answers have
        """Return the right answer, which a check can play back to see that it is paid; None if unknown.

        The default is the payload's `ground_truth` or else its `answer`.
        """
        payload = example.payload
        if not isinstance(payload, Mapping):
            return None
        return payload["ground_truth"] if "ground_truth" in payload else payload.get("answer")

    async def check_ready(self) -> None:
        """Raise where no rollout could run here: no sandbox, no server, no key. By default nothing is needed.

        A host calls it on the event loop of the rollouts before the first of them, and where it is
        known already what they are for, after `create_dataset`. When it raises, nothing is started; the
        error's text is for the user, its notes say the way out. Calling it twice is fine.
        """

    @property
    def requires_public_model_endpoint(self) -> bool:
        """Whether rollouts run on another machine, which a loopback endpoint cannot serve."""
        return False

    async def aclose(self) -> None:
        """Release what the environment holds on the running event loop. Calling it twice is fine."""

    async def run_group(self, requests: Sequence[RolloutRequest[PayloadT]]) -> dict[str, RolloutOutcome]:
        """Attempt one example several times, concurrently, then score the attempts.

        Returns one outcome per rollout id, in request order. Requests share one example
        and one split and have ids of their own, or ValueError before anything runs. A
        failed rollout is an outcome without rewards; only a broken environment raises.
        """
        attempts = await run_attempts(self, requests)
        return await score_group(self, attempts)

    def rollout_slots(self) -> AbstractAsyncContextManager[object] | None:
        """Return what a rollout enters while it runs: the running loop's share of `max_concurrent_rollouts`.

        None when there is no limit.
        """
        limit = self.max_concurrent_rollouts
        if limit is None:
            return None
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise ValueError(f"max_concurrent_rollouts must be a positive integer or None, not {limit!r}")
        slots: LoopLocal[asyncio.Semaphore] | None = self.__dict__.get("_rollout_slots")
        if slots is None:
            slots = self.__dict__["_rollout_slots"] = LoopLocal(partial(asyncio.Semaphore, limit))
        return slots.get()
