"""GRPO's clipped objective, with the sampler's own probabilities corrected for.

    -w * min(r * A, clip(r, 1 - low, 1 + high) * A)      r = pi / pi_old,  w = min(pi_old / mu, C)

Shao et al. 2024 (GRPO), Yu et al. 2025 (DAPO: unequal limits), Ye et al. 2020 (dual clip);
the truncated weight is that of decoupled PPO (Fu et al. 2025). Letters: O trained tokens.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from castform_trainer.losses.terms import LossTerms


@dataclass(frozen=True, kw_only=True, slots=True)
class GrpoConfig:
    """Limits of the objective."""

    clip_low: float = 0.2
    """The ratio is cut at 1 - clip_low where that lowers the objective."""
    clip_high: float = 0.28
    """The ratio is cut at 1 + clip_high where that lowers the objective."""
    importance_cap: float = 2.0
    """Largest weight of pi_old / mu."""
    dual_clip: float | None = None
    """Bound on the loss of a token with negative advantage, in units of -A. None: no bound."""
    ratio_ceiling: float | None = None
    """Bound on the ratio itself, on both signs of the advantage. None: no bound."""


def grpo_terms(
    logprobs_O: torch.Tensor,
    old_logprobs_O: torch.Tensor,
    sampler_logprobs_O: torch.Tensor,
    advantages_O: torch.Tensor,
    config: GrpoConfig,
) -> LossTerms:
    """Return one term a trained token.

    `old_logprobs_O` and `sampler_logprobs_O` are constants: no gradient flows through them.
    """
    old_O = old_logprobs_O.detach()
    ratio_O = torch.exp(logprobs_O - old_O)
    weight_O = torch.exp(old_O - sampler_logprobs_O).clamp(max=config.importance_cap)
    bounded_O = ratio_O if config.ratio_ceiling is None else ratio_O.clamp(max=config.ratio_ceiling)
    cut_O = ratio_O.clamp(1.0 - config.clip_low, 1.0 + config.clip_high)
    objective_O = torch.minimum(bounded_O * advantages_O, cut_O * advantages_O)
    if config.dual_clip is not None:
        capped_O = torch.maximum(objective_O, config.dual_clip * advantages_O)
        objective_O = torch.where(advantages_O < 0, capped_O, objective_O)
    above_O = (advantages_O > 0) & (ratio_O > 1.0 + config.clip_high)
    below_O = (advantages_O < 0) & (ratio_O < 1.0 - config.clip_low)
    return LossTerms(
        terms_O=-weight_O * objective_O,
        ratio_O=ratio_O.detach(),
        weight_O=weight_O,
        clipped_O=above_O | below_O,
    )
