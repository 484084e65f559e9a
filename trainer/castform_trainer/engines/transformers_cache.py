"""Keys and values of the rows being sampled, in slots that rows take and leave between steps.

Dims: R slots, H key/value heads, C capacity in tokens, D head width, B rows of a forward pass,
S new tokens a row in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import Cache

_ROUND = 64

Snapshot = list[tuple[Tensor, Tensor]]
"""Keys and values of one row, one pair a layer, each [H, length, D]."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WritePlan:
    """Where the new keys and values of one forward pass go, and what attention reads."""

    first_slot: int
    """The B rows of the pass lie in slots first_slot .. first_slot + B - 1."""
    rows: int
    read_length: int
    """Positions 0 .. read_length - 1 are handed to attention."""
    source_row: Tensor
    """[N] index into B of each token that is written; padding is left out."""
    source_token: Tensor
    """[N] index into S."""
    position: Tensor
    """[N] where in the row it goes."""


class SlotCache(Cache):  # type: ignore[misc]  # transformers has no type information
    """A transformers cache with one row a slot, each row at its own length.

    Set `plan` before every forward pass. Rows lie in slots 0, 1, 2 … without gaps, so that
    attention reads a view and nothing is gathered. Slots and capacity grow as asked for.
    """

    def __init__(self) -> None:
        super().__init__(layers=[])
        self.slots = 1
        self.capacity = _ROUND
        self.plan: WritePlan | None = None
        self._keys: list[Tensor] = []
        self._values: list[Tensor] = []

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Write the new states [B, H, S, D] by the plan and return what attention reads, [B, H, L, D]."""
        plan = self.plan
        if plan is None:
            raise RuntimeError("SlotCache.plan must be set before a forward pass")
        if layer_idx == len(self._keys):
            self._keys.append(self._allocate(key_states))
            self._values.append(self._allocate(value_states))
        slot = plan.source_row + plan.first_slot
        view = slice(plan.first_slot, plan.first_slot + plan.rows)
        result = []
        for store, states in ((self._keys, key_states), (self._values, value_states)):
            layer = store[layer_idx]
            layer[slot, :, plan.position] = states[plan.source_row, :, plan.source_token]
            result.append(layer[view, :, : plan.read_length])
        return result[0], result[1]

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Return 0: positions are always given explicitly."""
        return 0

    def reserve(self, slots: int, length: int) -> None:
        """Make room for `slots` rows of `length` tokens."""
        if slots <= self.slots and length <= self.capacity:
            return
        old_slots, old_capacity = self.slots, self.capacity
        if slots > self.slots:
            self.slots = max(slots, 2 * self.slots)
        if length > self.capacity:
            self.capacity = -(-length // _ROUND) * _ROUND
        for store in (self._keys, self._values):
            for index, layer in enumerate(store):
                grown = self._allocate(layer)
                grown[:old_slots, :, :old_capacity] = layer
                store[index] = grown

    def clear(self) -> None:
        """Forget every row and give the memory back."""
        self.slots, self.capacity = 1, _ROUND
        self._keys.clear()
        self._values.clear()

    def copy_row(self, source: int, targets: Sequence[int], length: int) -> None:
        """Copy the first `length` tokens of a slot into other slots."""
        if not targets or source in targets:
            return
        index = torch.tensor(list(targets))
        for layer in (*self._keys, *self._values):
            layer[index.to(layer.device), :, :length] = layer[source, :, :length]

    def take_snapshot(self, slot: int, length: int) -> Snapshot:
        """Return a copy of a row's first `length` tokens."""
        return [
            (keys[slot, :, :length].clone(), values[slot, :, :length].clone())
            for keys, values in zip(self._keys, self._values, strict=True)
        ]

    def restore(self, slot: int, snapshot: Snapshot, length: int) -> None:
        """Write the first `length` tokens of a snapshot into a slot."""
        self.reserve(slot + 1, length)
        for index, (keys, values) in enumerate(snapshot):
            if index == len(self._keys):
                self._keys.append(self._allocate(keys[None]))
                self._values.append(self._allocate(values[None]))
            self._keys[index][slot, :, :length] = keys[:, :length]
            self._values[index][slot, :, :length] = values[:, :length]

    def bytes_per_token(self) -> int:
        """Return what one token of one row takes, all layers; 0 before the first pass."""
        layers = (*self._keys, *self._values)
        return sum(layer.shape[1] * layer.shape[3] * layer.element_size() for layer in layers)

    def _allocate(self, like: Tensor) -> Tensor:
        """Zeros, not garbage: what is masked is still multiplied by 0, and 0 * nan is nan."""
        return like.new_zeros((self.slots, like.shape[1], self.capacity, like.shape[3]))
