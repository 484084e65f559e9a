from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file

from castform.errors import UsageError
from castform_trainer.engines.lora_folder import load_lora_folder
from castform_trainer.engines.transformers_linear import AdapterSwitch
from castform_trainer.models import load_causal_lm
from castform_trainer.testing import make_tiny_adapter

IDS = torch.tensor([[5, 80, 33, 240, 17, 9, 101, 55]])


def load_tiny(folder: Path, dtype: str = "float32") -> Any:
    return load_causal_lm(folder, dtype=dtype, device="cpu")


def hash_weights(model: Any) -> str:
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode() + tensor.contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


@pytest.mark.parametrize("packs", [True, False])
def test_the_base_weights_are_the_same_bytes_after_many_syncs(
    tiny_folder: Path, tiny_adapters: tuple[Path, Path], packs: bool
) -> None:
    model = load_tiny(tiny_folder)
    before, logits = hash_weights(model), model(IDS).logits
    switch = AdapterSwitch(model, packs=packs)
    adapters = [load_lora_folder(path) for path in tiny_adapters]
    for turn in range(100):
        switch.set_adapter(adapters[turn % 2])
    assert hash_weights(model) == before
    switch.set_adapter({})
    assert torch.allclose(model(IDS).logits, logits, atol=1e-4)


@pytest.mark.parametrize("packs", [True, False])
def test_a_merged_adapter_equals_peft(
    tiny_folder: Path, tiny_adapters: tuple[Path, Path], packs: bool
) -> None:
    model = load_tiny(tiny_folder)
    switch = AdapterSwitch(model, packs=packs)
    for path in tiny_adapters:
        switch.set_adapter(load_lora_folder(path))
        expected = PeftModel.from_pretrained(load_tiny(tiny_folder), path)(input_ids=IDS).logits
        assert torch.allclose(model(IDS).logits, expected, atol=1e-4)


def test_in_bfloat16_the_adapter_stays_beside_the_weight(
    tiny_folder: Path, tiny_adapters: tuple[Path, Path]
) -> None:
    model = load_tiny(tiny_folder, "bfloat16")
    before = hash_weights(model)
    base = model(IDS).logits.float()
    switch = AdapterSwitch(model, packs=True)
    switch.set_adapter(load_lora_folder(tiny_adapters[0]))
    assert hash_weights(model) == before
    expected = PeftModel.from_pretrained(load_tiny(tiny_folder), tiny_adapters[0])(input_ids=IDS).logits
    found = model(IDS).logits.float()
    assert (found - expected).abs().mean() < 0.2 * (base - expected).abs().mean()


@pytest.mark.parametrize(
    "settings",
    [
        {"r": 4, "lora_alpha": 16, "use_rslora": True},
        {
            "r": 4,
            "lora_alpha": 8,
            "rank_pattern": {"q_proj": 2},
            "alpha_pattern": {"layers.1.self_attn.q_proj": 32},
        },
    ],
)
def test_scales_follow_peft(tiny_folder: Path, tmp_path: Path, settings: dict[str, Any]) -> None:
    config = LoraConfig(target_modules=["q_proj", "down_proj"], init_lora_weights=False, **settings)
    adapted = get_peft_model(load_tiny(tiny_folder), config).eval()
    adapted.save_pretrained(tmp_path)
    model = load_tiny(tiny_folder)
    AdapterSwitch(model, packs=False).set_adapter(load_lora_folder(tmp_path))
    assert torch.allclose(model(IDS).logits, adapted(input_ids=IDS).logits, atol=1e-4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"peft_type": "IA3"}, "IA3"),
        ({"use_dora": True}, "DoRA"),
        ({"bias": "all"}, "biases"),
        ({"modules_to_save": ["lm_head"]}, "fully trained"),
    ],
)
def test_what_cannot_be_applied_exactly_is_refused(
    tiny_adapters: tuple[Path, Path], tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    folder = shutil.copytree(tiny_adapters[0], tmp_path / "adapter")
    config = json.loads((folder / "adapter_config.json").read_text())
    (folder / "adapter_config.json").write_text(json.dumps(config | change))
    with pytest.raises(UsageError, match=message):
        load_lora_folder(folder)


def test_a_damaged_adapter_folder_is_named(tiny_adapters: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no adapter_config\.json"):
        load_lora_folder(tmp_path)
    folder = shutil.copytree(tiny_adapters[0], tmp_path / "adapter")
    weights = load_file(folder / "adapter_model.safetensors")
    lost = next(name for name in weights if "lora_B" in name)
    del weights[lost]
    save_file(weights, folder / "adapter_model.safetensors")
    with pytest.raises(UsageError, match="only one of the two matrices"):
        load_lora_folder(folder)


def test_an_adapter_of_another_model_is_refused(
    tiny_folder: Path, tiny_adapters: tuple[Path, Path], tmp_path: Path
) -> None:
    from castform_trainer.testing import make_tiny_model

    other = make_tiny_model(tmp_path / "other", "llama", width=32)
    switch = AdapterSwitch(load_tiny(other), packs=False)
    with pytest.raises(UsageError, match="the adapter's"):
        switch.check(load_lora_folder(tiny_adapters[0]))
    deeper = make_tiny_model(tmp_path / "deeper", "llama", layers=3)
    adapter = load_lora_folder(make_tiny_adapter(deeper, tmp_path / "adapter"))
    with pytest.raises(UsageError, match="no such linear layer"):
        AdapterSwitch(load_tiny(tiny_folder), packs=False).check(adapter)
