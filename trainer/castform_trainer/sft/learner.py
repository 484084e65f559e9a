"""Supervised steps and held-out losses on one model. Letters: S samples, O trained tokens, U scored pairs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

from castform.sft.config import SftConfig
from castform_trainer.learning.learner import Learner
from castform_trainer.learning.tree_tensors import TreeTensors
from castform_trainer.losses.supervised import supervised_loss
from castform_trainer.sft.batch import MicroBatch, Sample, SftBatch, make_batch
from castform_trainer.sft.schedule import learning_rate


@dataclass(frozen=True, kw_only=True, slots=True)
class UpdateStats:
    """What one optimiser step did."""

    loss: float
    """Weighted mean of -log p over the step's trained tokens, before the weights changed."""
    grad_norm: float
    """Before clipping."""
    learning_rate: float
    seconds: float


class SftLearner(Learner):
    """Learns given tokens."""

    def __init__(
        self, model: Any, config: SftConfig, *, seed: int, steps: int, compute_dtype: torch.dtype
    ) -> None:
        """Adapt a loaded transformers model in place, or train all of it. `Any`: transformers is untyped.

        `steps` is where the decay ends. All weights are trained in the format they were loaded in,
        float32; where `compute_dtype` is another, the forward pass is autocast to it.
        """
        super().__init__(
            model,
            lora=config.lora if config.run.method == "lora" else None,
            optimizer=config.optimizer,
            rate=partial(learning_rate, config, total=steps),
            adapter=config.model.adapter,
            seed=seed,
        )
        self.compute_dtype = compute_dtype
        self._autocast = compute_dtype if compute_dtype != self.dtype else None

    def score(
        self, tree: TreeTensors, *, temperature: float | None = None, rows: int | None = None
    ) -> torch.Tensor:
        """See the base class; in the compute format."""
        with self.in_compute_format():
            return super().score(tree, temperature=temperature, rows=rows)

    def in_compute_format(self) -> torch.autocast:
        """Return the block in which a forward pass computes as training does."""
        return torch.autocast(self.device.type, dtype=self._autocast, enabled=self._autocast is not None)

    def score_trained(self, micro: MicroBatch) -> torch.Tensor:
        """Return log p of every trained token, [O]."""
        return self.score(micro.tensors, rows=micro.rows)[micro.tensors.pairs_O]

    def update(self, batch: SftBatch, is_stopped: Callable[[], bool] = lambda: False) -> UpdateStats | None:
        """Take one optimiser step, or none and return None when `is_stopped` says so on the way.

        Raises RunFailedError, before the weights change, when loss or gradient is not finite.
        """
        started = time.perf_counter()
        self.optimizer.zero_grad(set_to_none=True)
        total = torch.zeros((), dtype=torch.float64, device=self.device)
        for micro in self._on_device(batch):
            if is_stopped():
                self.optimizer.zero_grad(set_to_none=True)
                return None
            loss = supervised_loss(self.score_trained(micro), micro.tensors.weights_O)
            loss.backward()
            total += loss.detach()
        rate = self.learning_rate
        norm = self.apply_gradient(float(total))
        return UpdateStats(
            loss=float(total), grad_norm=norm, learning_rate=rate, seconds=time.perf_counter() - started
        )

    @torch.no_grad()  # type: ignore[untyped-decorator]  # torch is untyped here
    def measure(
        self,
        samples: Sequence[Sample],
        *,
        tokens_per_microbatch: int,
        packing: bool,
        is_stopped: Callable[[], bool] = lambda: False,
    ) -> list[float] | None:
        """Return the sum of weight * -log p over each sample's tokens, [S]; None when stopped on the way."""
        batch = make_batch(
            samples, tokens_per_microbatch=tokens_per_microbatch, packing=packing, window=self.window
        )
        sums_S = torch.zeros(len(samples), dtype=torch.float64)
        total = sum(sum(sample.weights) for sample in samples)
        for micro in self._on_device(batch):
            if is_stopped():
                return None
            weights_O = micro.tensors.weights_O.double() * total
            losses_O = -self.score_trained(micro).double() * weights_O
            sums_S.index_add_(0, micro.samples_O, losses_O.cpu())
        sums: list[float] = sums_S.tolist()
        return sums

    def _on_device(self, batch: SftBatch) -> Sequence[MicroBatch]:
        return [replace(micro, tensors=micro.tensors.to(self.device)) for micro in batch.micro_batches]
