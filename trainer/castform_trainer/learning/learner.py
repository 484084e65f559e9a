"""The model that is trained, whatever teaches it: LoRA adapters or all weights, and one optimiser over them.

Letters: N tree nodes, R rows of logits, V vocabulary, U scored pairs.
"""

from __future__ import annotations

import errno
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import torch
from safetensors import SafetensorError
from torch.nn.modules.dropout import _DropoutNd
from transformers.utils import logging

from castform.config import LoraSection
from castform.errors import RunFailedError
from castform_trainer.learning.logprobs import pair_logprobs
from castform_trainer.learning.lora import add_lora, load_lora
from castform_trainer.learning.model_card import write_model_card
from castform_trainer.learning.tree_tensors import TreeTensors, make_tree_mask


class AdamSettings(Protocol):
    """The part of a config's [optimizer] that AdamW is made from."""

    @property
    def weight_decay(self) -> float: ...
    @property
    def beta1(self) -> float: ...
    @property
    def beta2(self) -> float: ...
    @property
    def eps(self) -> float: ...
    @property
    def max_grad_norm(self) -> float: ...


class Learner:
    """Scores token trees and takes optimiser steps. What the loss is, its subclasses know."""

    def __init__(
        self,
        model: Any,
        *,
        lora: LoraSection | None,
        optimizer: AdamSettings,
        rate: Callable[[int], float],
        adapter: Path | None = None,
        temperature: float = 1.0,
        seed: int = 0,
    ) -> None:
        """Adapt a loaded transformers model in place. `Any`: transformers is untyped.

        `lora` None trains all weights; `adapter` is a PEFT folder to start from. `rate` gives the
        learning rate of the update with the given number, from 0.
        """
        self.device: torch.device = model.device
        self.dtype: torch.dtype = model.dtype
        self.temperature = temperature
        self.updates = 0
        self._rate = rate
        self.window = _attention_window(model.config)
        """Tokens that the model's narrowest attention spans, the most of a packed sequence. None: all."""
        self.is_full = lora is None
        self._max_grad_norm = optimizer.max_grad_norm
        if lora is None:
            self.model = model.requires_grad_(True)
        else:
            self.model = load_lora(model, adapter) if adapter else add_lora(model, lora, seed=seed)
        self.model.train()  # only because some models compute differently otherwise
        _turn_off_dropout(self.model)
        self.parameters: dict[str, torch.Tensor] = {
            name: weight for name, weight in self.model.named_parameters() if weight.requires_grad
        }
        self.optimizer = torch.optim.AdamW(
            self.parameters.values(),
            lr=rate(0),
            betas=(optimizer.beta1, optimizer.beta2),
            eps=optimizer.eps,
            weight_decay=optimizer.weight_decay,
            fused=lora is None,  # one pass over all weights, and no copies of them
        )

    def score(
        self, tree: TreeTensors, *, temperature: float | None = None, rows: int | None = None
    ) -> torch.Tensor:
        """Return log p of every pair of the tree at the learner's temperature (or the given one), [U].

        `rows` says that the nodes are so many single sequences of one length, one behind the other:
        they go through the model as a rectangle, under no mask but its own causal one, which any
        kind of layer follows.
        """
        rows_R, row_U = torch.unique(tree.pair_parents_U, return_inverse=True)
        if rows is not None:
            logits_RV = self.rectangle_logits(tree.ids_N.view(rows, -1), rows_R)
        else:
            self._check_window(int(tree.depths_N.max()) + 1)
            logits_RV = self.model(
                input_ids=tree.ids_N[None],
                attention_mask=make_tree_mask(tree.ends_N),
                position_ids=tree.depths_N[None],
                logits_to_keep=rows_R,
                use_cache=False,
            ).logits[0]
        scale = self.temperature if temperature is None else temperature
        return pair_logprobs(logits_RV, row_U, tree.pair_tokens_U, temperature=scale)

    def rectangle_logits(self, ids_BT: torch.Tensor, rows_R: torch.Tensor) -> torch.Tensor:
        """Return the logits at places of the flattened rectangle [B, T] alone, [R, V].

        The output head is a fifth of the work. What stands behind the end of a row changes nothing.
        """

        def pick(module: Any, inputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
            hidden_BTH, *others = inputs
            return hidden_BTH.flatten(0, 1)[rows_R][None], *others

        hook = self.model.get_output_embeddings().register_forward_pre_hook(pick)
        try:
            logits_RV: torch.Tensor = self.model(input_ids=ids_BT, use_cache=False).logits[0]
        finally:
            hook.remove()
        return logits_RV

    def _check_window(self, longest: int) -> None:
        if self.window is not None and longest > self.window:
            raise RunFailedError(
                f"a sequence has {longest} tokens, but this model attends within {self.window} only",
                hint=f"let no sequence have more than {self.window} tokens",
            )

    @property
    def result_name(self) -> str:
        """What a folder of its weights is called."""
        return "model" if self.is_full else "adapter"

    @property
    def learning_rate(self) -> float:
        """Of the next optimiser step."""
        return self._rate(self.updates)

    def apply_gradient(self, loss: float) -> float:
        """Take the optimiser step that the gradients so far mean; return their norm before clipping.

        Raises RunFailedError, before the weights change, when `loss` or the norm is not finite.
        """
        norm = float(torch.nn.utils.clip_grad_norm_(self.parameters.values(), self._max_grad_norm))
        _check_finite(loss, norm)
        for group in self.optimizer.param_groups:
            group["lr"] = self.learning_rate
        self.optimizer.step()
        self.updates += 1
        return norm

    def save_adapter(self, folder: Path) -> None:
        """Write the adapters as a plain PEFT folder. OSError when the disk refuses."""
        self._save(folder, save_embedding_layers=False)
        config = next(iter(self.model.peft_config.values()))
        write_model_card(folder, base=str(config.base_model_name_or_path))

    def save_weights(self, folder: Path) -> None:
        """Write a model that is trained in full as transformers does, without tokenizer. OSError as above."""
        self._save(folder)

    def _save(self, folder: Path, **options: bool) -> None:
        had_bar = logging.is_progress_bar_enabled()
        logging.disable_progress_bar()
        try:
            self.model.save_pretrained(str(folder), **options)
        except SafetensorError as error:
            raise OSError(errno.EIO, str(error), str(folder)) from error
        finally:
            if had_bar:
                logging.enable_progress_bar()

    def state(self) -> dict[str, Any]:
        """Return everything that decides the next update: weights, optimiser, step count, torch's RNG.

        The weights are left out of a model that is trained in full: `save_weights` has them.
        """
        weights = {name: weight.detach().cpu() for name, weight in self.parameters.items()}
        return {
            **({} if self.is_full else {"weights": weights}),
            "optimizer": self.optimizer.state_dict(),
            "updates": self.updates,
            "rng": torch.get_rng_state(),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Continue exactly where `state` was taken. Without weights in it, those are loaded already."""
        with torch.no_grad():
            for name, value in state.get("weights", {}).items():
                self.parameters[name].copy_(value)
        self.optimizer.load_state_dict(state["optimizer"])
        self.updates = state["updates"]
        torch.set_rng_state(state["rng"])


def _turn_off_dropout(model: Any) -> None:
    """Make every forward pass the same, whatever dropout the model's config or its adapter names."""
    for module in model.modules():
        if isinstance(module, _DropoutNd):
            module.p = 0.0
        for name, value in vars(module).items():
            if "drop" in name and isinstance(value, float):
                setattr(module, name, 0.0)


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
                hint='lower optimizer.learning_rate, or use model.dtype = "float32"; a resumed run would come '
                "to the same step, so start a new one: model.adapter may name that of the last checkpoint",
            )
