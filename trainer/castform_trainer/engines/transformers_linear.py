"""Linear layers that carry an adapter without ever touching the base weight.

In float32 the adapter is merged into a second copy, computed anew from the base weight each
time; on the CPU that copy is in oneDNN's own layout, in which it multiplies faster. In lower
precision merging would round the adapter away, so it stays beside the base weight.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from castform.errors import UsageError
from castform_trainer.engines.lora_folder import LoraLayer

_PACKED_ROWS = 32
"""Batch size that oneDNN's layout is chosen for; any other works with it too."""


class ServedLinear(nn.Module):  # type: ignore[misc]  # torch is not type-checked here
    """`y = x W' + b` with W' the base weight or base plus adapter."""

    def __init__(self, linear: nn.Linear, *, packs: bool) -> None:
        super().__init__()
        self.weight = linear.weight
        """The base weight, never written."""
        self.bias = linear.bias
        self.in_features = linear.in_features
        self.out_features = linear.out_features
        self._merges = linear.weight.dtype == torch.float32
        self._packs = packs and self._merges and linear.weight.device.type == "cpu"
        self._merged: Tensor | None = None
        self._packed: Tensor | None = None
        self._down: Tensor | None = None
        self._up: Tensor | None = None
        if self._packs:
            self._packed = _pack(self.weight)

    def set_adapter(self, layer: LoraLayer | None) -> None:
        """Compute with this adapter from now on; None means the base weight alone."""
        self._merged = self._down = self._up = None
        if layer is not None and not self._merges:
            place = {"device": self.weight.device, "dtype": self.weight.dtype}
            self._down = layer.down.to(**place)
            self._up = (layer.up * layer.scale).to(**place)
            return
        weight: Tensor = self.weight.detach()
        if layer is not None:
            down, up = layer.down.to(weight.device), layer.up.to(weight.device)
            weight = torch.addmm(weight, up, down, alpha=layer.scale)
        if self._packs:
            self._packed = _pack(weight)
        elif layer is not None:
            self._merged = weight

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer to [..., in]."""
        if self._packed is not None:
            result: Tensor = torch.ops.mkldnn._linear_pointwise(x, self._packed, self.bias, "none", [], "")
            return result
        y = functional.linear(x, self.weight if self._merged is None else self._merged, self.bias)
        if self._down is not None and self._up is not None:
            y = y + functional.linear(functional.linear(x, self._down), self._up)
        return y


class AdapterSwitch:
    """All linear layers of a model, and which adapter they compute with."""

    def __init__(self, model: Any, *, packs: bool) -> None:
        """Replace the linear layers of `model` in place. `Any`: transformers has no type information."""
        self._layers: dict[str, ServedLinear] = {}
        self._adapted: set[str] = set()
        linears = [(name, module) for name, module in model.named_modules() if type(module) is nn.Linear]
        for name, module in linears:
            served = ServedLinear(module, packs=packs)
            model.set_submodule(name, served)
            self._layers[name] = served

    def check(self, adapter: Mapping[str, LoraLayer]) -> None:
        """Raise UsageError unless every matrix of the adapter fits a linear layer of the model."""
        for name, layer in adapter.items():
            target = self._layers.get(name)
            if target is None:
                raise UsageError(f"the adapter changes {name}, but the model has no such linear layer")
            shape = (layer.up.shape[0], layer.down.shape[1])
            if shape != (target.out_features, target.in_features):
                raise UsageError(
                    f"the adapter's {name} is {shape[0]} x {shape[1]}, the model's "
                    f"{target.out_features} x {target.in_features}",
                    hint="it was trained on another base model",
                )

    def set_adapter(self, adapter: Mapping[str, LoraLayer]) -> None:
        """Compute with `adapter` (empty: the base model), starting from the base weights."""
        for name in sorted({*self._adapted, *adapter}):
            self._layers[name].set_adapter(adapter.get(name))
        self._adapted = set(adapter)


def _pack(weight: Tensor) -> Tensor:
    packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), _PACKED_ROWS)
    return packed
