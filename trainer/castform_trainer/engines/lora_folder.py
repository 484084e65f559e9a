"""Read a PEFT LoRA folder: two matrices and a scale for each adapted linear layer."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from castform.errors import UsageError

_PREFIX = "base_model.model."
_REFUSED = {
    "use_dora": "DoRA",
    "fan_in_fan_out": "transposed weights",
    "modules_to_save": "fully trained modules",
    "lora_bias": "LoRA biases",
    "megatron_config": "Megatron layers",
    "layer_replication": "replicated layers",
    "trainable_token_indices": "trained token embeddings",
    "target_parameters": "adapted raw parameters",
    "alora_invocation_tokens": "activated LoRA",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class LoraLayer:
    """What is added to one linear layer: `scale * up @ down`."""

    down: Tensor
    """[rank, in], PEFT's lora_A."""
    up: Tensor
    """[out, rank], PEFT's lora_B."""
    scale: float


def load_lora_folder(path: Path) -> dict[str, LoraLayer]:
    """Return the layers of an adapter by the module's name in the base model, in float32.

    Raises UsageError when the folder is no LoRA adapter or uses what the engine cannot apply exactly.
    """
    from safetensors.torch import load_file

    config = _read_config(path)
    weights = path / "adapter_model.safetensors"
    if not weights.is_file():
        raise UsageError(f"{path} has no adapter_model.safetensors")
    halves: dict[str, dict[str, Tensor]] = {}
    for key, tensor in load_file(weights).items():
        match = re.fullmatch(r"(.+)\.lora_([AB])(?:\.default)?\.weight", key.removeprefix(_PREFIX))
        if match is None:
            raise UsageError(f"{weights} holds {key}, which is not a LoRA matrix of a linear layer")
        halves.setdefault(match[1], {})[match[2]] = tensor.float()
    layers = {}
    for name, pair in halves.items():
        if set(pair) != {"A", "B"}:
            raise UsageError(f"{weights} holds only one of the two matrices of {name}")
        layers[name] = LoraLayer(
            down=pair["A"], up=pair["B"], scale=_compute_scale(config, name, pair["A"].shape[0])
        )
    return layers


def _read_config(path: Path) -> dict[str, Any]:
    try:
        config = json.loads((path / "adapter_config.json").read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path} is not an adapter folder: it has no adapter_config.json") from error
    except ValueError as error:
        raise UsageError(f"{path}/adapter_config.json is not valid JSON: {error}") from error
    if config.get("peft_type") != "LORA":
        raise UsageError(f"{path} holds a {config.get('peft_type')!r} adapter, only LORA can be served")
    used = [what for key, what in _REFUSED.items() if config.get(key)]
    if config.get("bias", "none") != "none":
        used.append("trained biases")
    if used:
        raise UsageError(
            f"the adapter in {path} uses {', '.join(used)}, which this engine cannot apply",
            hint="train plain LoRA on linear layers, or merge the adapter and serve the merged model",
        )
    return dict(config)


def _compute_scale(config: Mapping[str, Any], name: str, rank: int) -> float:
    alpha = config["lora_alpha"]
    for pattern, value in (config.get("alpha_pattern") or {}).items():
        if re.match(rf"(.*\.)?({pattern})$", name):
            alpha = value
            break
    return float(alpha / rank**0.5 if config.get("use_rslora") else alpha / rank)
