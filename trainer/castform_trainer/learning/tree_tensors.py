"""A token tree as tensors: one forward and backward pass.

Letters: N tree nodes, U scored (parent, token) pairs, O trained occurrences.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Self

import torch

from castform_trainer.learning.tree import TokenTree


@dataclass(frozen=True, kw_only=True, slots=True)
class TreeTensors:
    """What every loss needs of a tree. `castform_trainer.learning.tree.TokenTree` says what the parts are."""

    ids_N: torch.Tensor
    depths_N: torch.Tensor
    ends_N: torch.Tensor
    pair_parents_U: torch.Tensor
    pair_tokens_U: torch.Tensor
    pairs_O: torch.Tensor
    """Index of each occurrence's pair."""
    weights_O: torch.Tensor
    """How much each occurrence counts, the step's one denominator included."""

    def to(self, device: torch.device) -> Self:
        """Return a copy on `device`."""
        return type(self)(**{item.name: getattr(self, item.name).to(device) for item in fields(self)})


def tree_to_tensors(tree: TokenTree) -> dict[str, torch.Tensor]:
    """Return the tensors of a tree by their names in TreeTensors, all but the weights."""
    return {
        "ids_N": torch.tensor(tree.ids),
        "depths_N": torch.tensor(tree.depths),
        "ends_N": torch.tensor(tree.ends),
        "pair_parents_U": torch.tensor(tree.pair_parents),
        "pair_tokens_U": torch.tensor(tree.pair_tokens),
        "pairs_O": torch.tensor([occurrence.pair for occurrence in tree.occurrences]),
    }


def make_tree_mask(ends_N: torch.Tensor) -> torch.Tensor:
    """Return the attention mask [1, 1, N, N]; True where node q may look at node k."""
    nodes_N = torch.arange(len(ends_N), device=ends_N.device)
    mask_QK = (nodes_N[None, :] <= nodes_N[:, None]) & (nodes_N[:, None] < ends_N[None, :])
    return mask_QK[None, None]
