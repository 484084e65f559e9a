"""After every adapter swap: does the engine now sample from the policy that was trained?

About 64 fixed tokens are scored by the trainer and by the engine. They must agree within what
the number format explains; when they do not, the values say what the engine is serving instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from castform.errors import RunFailedError
from castform_trainer.engines.contract import Engine
from castform_trainer.learning.canary import mean_gap
from castform_trainer.rl.batch import make_batch
from castform_trainer.rl.policy import Policy
from castform_trainer.rl.sequence import TrainSequence

TOLERANCES = {"float64": 3e-4, "float32": 3e-4, "bfloat16": 0.08, "float16": 0.03}
"""Largest mean |difference| of log p, in nats, by the base model's number format."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CanaryReading:
    """What one comparison found."""

    version: int
    gap: float
    """Mean |trainer - engine|, in nats."""
    moved: float
    """Mean |trainer - trainer at the version before|."""


def score_with_policy(policy: Policy, ids: Sequence[int]) -> list[float]:
    """Return log p of ids[1:] at temperature 1, through the path that training uses."""
    sequence = TrainSequence(
        ids=ids, mask=[0] + [1] * (len(ids) - 1), logprobs=[0.0] * len(ids), advantage=0.0, rollout="canary"
    )
    (micro,) = make_batch([sequence], tokens_per_microbatch=len(ids)).micro_batches
    with torch.no_grad():
        scores_U = policy.score(micro.to(policy.device), temperature=1.0)
    values: list[float] = scores_U[micro.pairs_O.to(scores_U.device)].tolist()
    return values


class Canary:
    """Compares engine and policy, and remembers what earlier versions looked like."""

    def __init__(self, ids: Sequence[int], policy: Policy, *, dtype: str) -> None:
        self.ids = list(ids)
        self.tolerance = TOLERANCES[dtype]
        self._policy = policy
        with policy.without_adapter():
            self._base = score_with_policy(policy, self.ids)
        self._known = {0: self._base}

    async def check(self, engine: Engine, *, version: int) -> CanaryReading:
        """Compare at `version`. Raises RunFailedError, with the likely cause, when they disagree."""
        expected = score_with_policy(self._policy, self.ids) if version else self._base
        served = await engine.logprobs(self.ids, version=version)
        gap = mean_gap(expected, served)
        before = self._known[max(self._known)]
        if not gap <= self.tolerance:
            raise RunFailedError(
                f"after loading adapter version {version} the engine disagrees with the trainer by "
                f"{gap:.4f} nats a token (at most {self.tolerance:g} is rounding): {self._explain(served)}",
                hint="no further step was taken; the last checkpoint is good. "
                'Try engine.name = "transformers", or model.dtype = "float32"',
            )
        self._known = {0: self._base, version: expected}
        return CanaryReading(version=version, gap=gap, moved=mean_gap(expected, before))

    def _explain(self, served: Sequence[float]) -> str:
        for known, values in sorted(self._known.items(), reverse=True):
            if mean_gap(values, served) <= self.tolerance:
                if known == 0:
                    return "it answers as the base model without any adapter"
                return f"it still answers as version {known}"
        return (
            "its answers match no version of this run (another adapter, scale, base model or number format)"
        )
