"""LoRA on every linear layer of a causal language model, as peft stores it, computed with less work.

peft's own forward makes three temporaries of the layer's full width; this one adds the low-rank
product in place and keeps only x and x A^T for the backward pass. The result is peft's up to
rounding. Letters: M tokens, I and O widths of a layer, R rank.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from peft.tuners.lora import Linear as LoraLinear

from castform.config import LoraSection
from castform.errors import ConfigError, UsageError
from castform_trainer.engines.lora_folder import LoraLayer, load_lora_folder

_ANOTHER_MODEL = "it was trained on another model; adapter_config.json names it"


def add_lora(model: Any, config: LoraSection, *, seed: int) -> Any:
    """Wrap a transformers model with fp32 adapters (fp64 on an fp64 base) that start as the identity.

    A ~ U(-1/sqrt(I), 1/sqrt(I)) from `seed`, B = 0. Nothing of the base requires gradients.
    `Any`: neither transformers nor peft has type information.
    """
    targets = config.targets if isinstance(config.targets, str) else list(config.targets)
    lora = LoraConfig(
        r=config.rank,
        lora_alpha=config.alpha,
        target_modules=targets,
        lora_dropout=0.0,
        bias="none",
        task_type="CAUSAL_LM",
    )
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # peft reads an attribute that transformers renames
        torch.manual_seed(seed)
        try:
            adapted = get_peft_model(model, lora)
        except ValueError as error:
            raise ConfigError(
                f"lora.targets = {targets!r} does not fit this model: {str(error).splitlines()[0]}",
                hint='"all-linear" takes every linear layer but the output head',
            ) from error
    return _with_fast_product(adapted)


def load_lora(model: Any, folder: Path) -> Any:
    """Wrap a transformers model with the adapters of a PEFT folder, ready to be trained on.

    Rank, alpha and layers are the folder's; a dropout that it names is not applied. Raises
    UsageError when it is no plain LoRA folder or belongs to another model.
    """
    layers = load_lora_folder(folder)
    check_lora_fits(layers, model, folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of peft, for keys that do not fit: compared below
        try:
            adapted = PeftModel.from_pretrained(model, str(folder), is_trainable=True)
        except (ValueError, RuntimeError) as error:
            reason = " ".join(str(error).split())
            raise UsageError(
                f"the adapter in {folder} does not fit this model: {reason}", hint=_ANOTHER_MODEL
            ) from error
    weights = dict(adapted.named_parameters())
    found = {
        name.removeprefix("base_model.model.").partition(".lora_A.")[0]: weight
        for name, weight in weights.items()
        if ".lora_A." in name
    }
    if set(found) != set(layers):
        strange = min(set(found) ^ set(layers))
        raise UsageError(
            f"the adapter in {folder} does not fit this model: {strange} is only in one of them",
            hint=_ANOTHER_MODEL,
        )
    return _with_fast_product(adapted)


def check_lora_fits(layers: Mapping[str, LoraLayer], model: Any, folder: Path) -> None:
    """Raise UsageError unless the model has every layer that the adapter in `folder` is for, in its size.

    Names and sizes alone are looked at, so a model without weights (on torch's `meta` device) will do.
    """
    modules = dict(model.named_modules())
    for name, layer in layers.items():
        module = modules.get(name)
        if module is None:
            reason = f"it has a layer {name}, the model has none"
        else:
            ours = (layer.up.shape[0], layer.down.shape[1])
            if not isinstance(module, torch.nn.Linear) or ours == (module.out_features, module.in_features):
                continue
            reason = (
                f"its {name} is for {ours[1]} values in and {ours[0]} out, "
                f"that of the model has {module.in_features} in and {module.out_features} out"
            )
        raise UsageError(f"the adapter in {folder} does not fit this model: {reason}", hint=_ANOTHER_MODEL)


def _with_fast_product(adapted: Any) -> Any:
    for module in adapted.modules():
        if type(module) is LoraLinear and type(module.base_layer) is torch.nn.Linear:
            module.forward = partial(_forward, module)
    return adapted


def _forward(module: Any, x: torch.Tensor) -> torch.Tensor:
    base = module.base_layer
    name = module.active_adapters[0] if module.active_adapters else None
    if module.disable_adapters or module.merged or name is None:
        plain: torch.Tensor = base(x)
        return plain
    result: torch.Tensor = _LoraProduct.apply(
        x,
        base.weight,
        base.bias,
        module.lora_A[name].weight,
        module.lora_B[name].weight,
        module.scaling[name],
    )
    return result


class _LoraProduct(torch.autograd.Function):  # type: ignore[misc]  # torch is untyped here
    """x W^T + bias + scale (x A^T) B^T, with gradients for x, A and B alone."""

    @staticmethod
    def forward(
        ctx: Any,
        x: torch.Tensor,
        weight_OI: torch.Tensor,
        bias_O: torch.Tensor | None,
        a_RI: torch.Tensor,
        b_OR: torch.Tensor,
        scale: float,
    ) -> torch.Tensor:
        x_MI = x.reshape(-1, x.shape[-1])
        low_MR = x_MI.to(a_RI.dtype) @ a_RI.T
        y_MO = torch.nn.functional.linear(x_MI, weight_OI, bias_O)
        if y_MO.dtype == low_MR.dtype:
            y_MO.addmm_(low_MR, b_OR.T, alpha=scale)
        else:
            y_MO = torch.addmm(y_MO.to(low_MR.dtype), low_MR, b_OR.T, alpha=scale).to(y_MO.dtype)
        ctx.save_for_backward(x_MI, low_MR, weight_OI, a_RI, b_OR)
        ctx.scale = scale
        return y_MO.reshape(*x.shape[:-1], -1)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[torch.Tensor | None, ...]:
        x_MI, low_MR, weight_OI, a_RI, b_OR = ctx.saved_tensors
        grad_MO = grads[0].reshape(-1, weight_OI.shape[0])
        wide_MO = grad_MO.to(a_RI.dtype)
        down_MR = (wide_MO @ b_OR).mul_(ctx.scale)
        grad_b_OR = (wide_MO.T @ low_MR).mul_(ctx.scale)
        grad_a_RI = down_MR.T @ x_MI.to(a_RI.dtype)
        grad_x = None
        if ctx.needs_input_grad[0]:
            grad_MI = grad_MO @ weight_OI
            if grad_MI.dtype == down_MR.dtype:
                grad_MI.addmm_(down_MR, a_RI)
            else:
                grad_MI = torch.addmm(grad_MI.to(down_MR.dtype), down_MR, a_RI).to(grad_MI.dtype)
            grad_x = grad_MI.reshape(*grads[0].shape[:-1], -1)
        return grad_x, None, None, grad_a_RI, grad_b_OR, None
