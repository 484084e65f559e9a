"""The model that is trained: a frozen base, LoRA adapters, and one optimiser over them.

Letters: O trained occurrences.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from castform.config import LoraSection, OptimizerSection
from castform_trainer.learning.learner import Learner
from castform_trainer.losses import PolicyLoss
from castform_trainer.rl.batch import MicroBatch, TrainBatch


@dataclass(frozen=True, kw_only=True, slots=True)
class UpdateStats:
    """What one optimiser step did."""

    loss: float
    grad_norm: float
    """Before clipping."""
    learning_rate: float
    trained_tokens: int
    tree_tokens: int
    sequence_tokens: int
    ratio_mean: float
    """pi / pi_old over the trained tokens."""
    clip_fraction: float
    """Share of trained tokens whose gradient the objective cut."""
    importance_mean: float
    """Weight pi_old / mu in force, over the trained tokens."""
    sampler_gap: float
    """Mean |log pi_old - log mu|: how far engine and trainer disagree on the recorded tokens."""
    sampler_gap_max: float
    seconds: float


class Policy(Learner):
    """Learns from scored rollouts."""

    def __init__(
        self,
        model: Any,
        *,
        lora: LoraSection,
        optimizer: OptimizerSection,
        temperature: float = 1.0,
        seed: int = 0,
        total_updates: int | None = None,
        adapter: Path | None = None,
    ) -> None:
        """Adapt a loaded transformers model in place. `Any`: transformers is untyped.

        `adapter` is a PEFT folder to start from; `total_updates` is where a linear decay ends,
        without it the rate stays.
        """
        super().__init__(
            model,
            lora=lora,
            optimizer=optimizer,
            rate=partial(learning_rate, optimizer, total=total_updates),
            adapter=adapter,
            temperature=temperature,
            seed=seed,
        )

    def update(self, batches: Sequence[TrainBatch], loss: PolicyLoss) -> list[UpdateStats]:
        """Take one optimiser step a batch; the old policy is the one at the start of the call.

        With a single batch the old policy is the current one and costs no forward pass of its own.
        Raises RunFailedError, before the weights change, when a loss or gradient is not finite.
        """
        devices = [[micro.to(self.device) for micro in batch.micro_batches] for batch in batches]
        old: list[list[torch.Tensor]] | None = None
        if len(batches) > 1:
            with torch.no_grad():
                old = [[self.score(micro) for micro in micros] for micros in devices]
        return [
            self._step(batch, micros, loss, None if old is None else old[index])
            for index, (batch, micros) in enumerate(zip(batches, devices, strict=True))
        ]

    def _step(
        self,
        batch: TrainBatch,
        micros: Sequence[MicroBatch],
        loss: PolicyLoss,
        old: Sequence[torch.Tensor] | None,
    ) -> UpdateStats:
        started = time.perf_counter()
        self.optimizer.zero_grad(set_to_none=True)
        total = torch.zeros((), dtype=torch.float64, device=self.device)
        sums = torch.zeros(4, dtype=torch.float64, device=self.device)
        widest = torch.zeros((), dtype=torch.float64, device=self.device)
        for index, micro in enumerate(micros):
            logprobs_O = self.score(micro)[micro.pairs_O]
            old_O = logprobs_O.detach() if old is None else old[index][micro.pairs_O]
            terms = loss(logprobs_O, old_O, micro.sampler_logprobs_O, micro.advantages_O)
            value = (terms.terms_O * micro.weights_O).sum()
            value.backward()
            total += value.detach()
            gap_O = (old_O - micro.sampler_logprobs_O).abs()
            sums += torch.stack(
                [terms.ratio_O.sum(), terms.clipped_O.sum(), terms.weight_O.sum(), gap_O.sum()]
            ).double()
            widest = torch.maximum(widest, gap_O.max().double())
        rate = self.learning_rate
        norm = self.apply_gradient(float(total))
        means = (sums / max(1, batch.trained_tokens)).tolist()
        return UpdateStats(
            loss=float(total),
            grad_norm=norm,
            learning_rate=rate,
            trained_tokens=batch.trained_tokens,
            tree_tokens=batch.tree_tokens,
            sequence_tokens=batch.sequence_tokens,
            ratio_mean=means[0],
            clip_fraction=means[1],
            importance_mean=means[2],
            sampler_gap=means[3],
            sampler_gap_max=float(widest),
            seconds=time.perf_counter() - started,
        )

    @contextmanager
    def without_adapter(self) -> Iterator[None]:
        """Inside the block the policy is the base model."""
        with self.model.disable_adapter():
            yield


def learning_rate(settings: OptimizerSection, update: int, *, total: int | None) -> float:
    """Return the rate of an update, from 0: linear warm-up, then constant or a linear decay to `total`."""
    warmup = settings.warmup_steps
    factor = min(1.0, (update + 1) / (warmup + 1))
    if settings.decay == "linear" and total is not None and update > warmup:
        factor = max(0.0, (total - update) / max(1, total - warmup))
    return settings.learning_rate * factor
