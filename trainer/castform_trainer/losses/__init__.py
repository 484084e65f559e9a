"""One file an algorithm; each turns log-probabilities into one loss term a trained token.

A term is not divided by anything: the batch carries one weight a token, fixed over the whole
optimiser step (`castform_trainer.rl.weighting`), and the loss is the weighted sum of terms.
"""

from __future__ import annotations

from functools import partial

from castform.config import RlSection
from castform_trainer.losses.grpo import GrpoConfig, grpo_terms
from castform_trainer.losses.terms import LossTerms, PolicyLoss

__all__ = ["GrpoConfig", "LossTerms", "PolicyLoss", "grpo_terms", "make_loss"]


def make_loss(config: RlSection) -> PolicyLoss:
    """Return the loss that `config.algorithm` names, with the config's limits bound to it."""
    grpo = GrpoConfig(
        clip_low=config.clip_low, clip_high=config.clip_high, importance_cap=config.importance_cap
    )
    losses: dict[str, PolicyLoss] = {"grpo": partial(grpo_terms, config=grpo)}
    return losses[config.algorithm]
