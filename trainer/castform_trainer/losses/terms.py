"""What every loss returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch


@dataclass(frozen=True, kw_only=True, slots=True)
class LossTerms:
    """What a loss says of each trained token; every tensor has shape [O]."""

    terms_O: torch.Tensor
    """To be minimised; carries the gradient."""
    ratio_O: torch.Tensor
    """pi / pi_old, detached."""
    weight_O: torch.Tensor
    """Importance weight of pi_old over mu in force, detached."""
    clipped_O: torch.Tensor
    """True where the objective's limits cut the gradient to zero."""


PolicyLoss = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], LossTerms]
"""(logprobs_O, old_logprobs_O, sampler_logprobs_O, advantages_O) -> terms."""
