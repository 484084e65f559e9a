"""The model that is trained: a frozen base, LoRA adapters, and one optimiser over them.

Letters: N tree nodes, R rows of logits, V vocabulary, U scored pairs, O trained occurrences.
"""

from __future__ import annotations

import errno
import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError

from castform.config import LoraSection, OptimizerSection
from castform.errors import RunFailedError
from castform_trainer.rl.batch import MicroBatch, TrainBatch, make_tree_mask
from castform_trainer.rl.logprobs import pair_logprobs
from castform_trainer.rl.lora import add_lora
from castform_trainer.rl.losses import PolicyLoss


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


class Policy:
    """Scores token trees and learns from them."""

    def __init__(
        self,
        model: Any,
        *,
        lora: LoraSection,
        optimizer: OptimizerSection,
        temperature: float = 1.0,
        seed: int = 0,
        total_updates: int | None = None,
    ) -> None:
        """Adapt a loaded transformers model in place. `Any`: transformers is untyped.

        `total_updates` is where a linear decay ends; without it the rate stays.
        """
        self.device: torch.device = model.device
        self.dtype: torch.dtype = model.dtype
        self.temperature = temperature
        self.updates = 0
        self._total_updates = total_updates
        self._window = _attention_window(model.config)
        self._config = optimizer
        self.model = add_lora(model, lora, seed=seed)
        self.model.train()  # no dropout anywhere: set only because some models compute differently otherwise
        self.parameters: dict[str, torch.Tensor] = {
            name: weight for name, weight in self.model.named_parameters() if weight.requires_grad
        }
        self.optimizer = torch.optim.AdamW(
            self.parameters.values(),
            lr=optimizer.learning_rate,
            betas=(optimizer.beta1, optimizer.beta2),
            eps=optimizer.eps,
            weight_decay=optimizer.weight_decay,
        )

    def score(self, micro: MicroBatch, *, temperature: float | None = None) -> torch.Tensor:
        """Return log p of every pair of the tree at the policy's temperature (or the given one), [U]."""
        longest = int(micro.depths_N.max()) + 1
        if self._window is not None and longest > self._window:
            raise RunFailedError(
                f"a sequence has {longest} tokens, but this model attends within {self._window} only",
                hint=f"set sampling.max_context_tokens = {self._window}",
            )
        rows_R, row_U = torch.unique(micro.pair_parents_U, return_inverse=True)
        output = self.model(
            input_ids=micro.ids_N[None],
            attention_mask=make_tree_mask(micro.ends_N),
            position_ids=micro.depths_N[None],
            logits_to_keep=rows_R,
            use_cache=False,
        )
        scale = self.temperature if temperature is None else temperature
        return pair_logprobs(output.logits[0], row_U, micro.pair_tokens_U, temperature=scale)

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
        norm = float(torch.nn.utils.clip_grad_norm_(self.parameters.values(), self._config.max_grad_norm))
        _check_finite(float(total), norm)
        rate = self.learning_rate
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        self.updates += 1
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

    @property
    def learning_rate(self) -> float:
        """Of the next optimiser step: linear warm-up, then constant or a linear decay."""
        warmup, total = self._config.warmup_steps, self._total_updates
        factor = min(1.0, (self.updates + 1) / (warmup + 1))
        if self._config.decay == "linear" and total is not None and self.updates > warmup:
            factor = max(0.0, (total - self.updates) / max(1, total - warmup))
        return self._config.learning_rate * factor

    @contextmanager
    def without_adapter(self) -> Iterator[None]:
        """Inside the block the policy is the base model."""
        with self.model.disable_adapter():
            yield

    def save_adapter(self, folder: Path) -> None:
        """Write the adapters as a plain PEFT folder. OSError when the disk refuses."""
        try:
            self.model.save_pretrained(str(folder), save_embedding_layers=False)
        except SafetensorError as error:
            raise OSError(errno.EIO, str(error), str(folder)) from error

    def state(self) -> dict[str, Any]:
        """Return everything that decides the next update: weights, optimiser, step count, torch's RNG."""
        return {
            "weights": {name: weight.detach().cpu() for name, weight in self.parameters.items()},
            "optimizer": self.optimizer.state_dict(),
            "updates": self.updates,
            "rng": torch.get_rng_state(),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Continue exactly where `state` was taken."""
        with torch.no_grad():
            for name, weight in self.parameters.items():
                weight.copy_(state["weights"][name])
        self.optimizer.load_state_dict(state["optimizer"])
        self.updates = state["updates"]
        torch.set_rng_state(state["rng"])


def _attention_window(config: Any) -> int | None:
    """Return the window of the model's narrowest attention, or None when it sees everything."""
    text = config.get_text_config()
    window = getattr(text, "sliding_window", None)
    if window is None or getattr(text, "use_sliding_window", True) is False:
        return None
    kinds = getattr(text, "layer_types", None)
    if kinds is not None and "sliding_attention" not in kinds:
        return None
    return int(window)


def _check_finite(loss: float, norm: float) -> None:
    for name, value in (("loss", loss), ("gradient norm", norm)):
        if not math.isfinite(value):
            raise RunFailedError(
                f"the {name} is {value}; the weights were left as they are",
                hint='lower optimizer.learning_rate, or use model.dtype = "float32"; '
                "the last checkpoint is good: `castform train --resume`",
            )
