"""Turn a GGUF file of a llama-like model into an ordinary transformers folder.

Reads the file's own metadata and dequantizes tensor by tensor: seconds where loading through
transformers takes the better part of a minute. Only what the pullable models need is known:
architecture `llama`, byte-level BPE, pre-tokenizer `smollm`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from castform.errors import UsageError

_LAYER_TENSORS = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_TOP_TENSORS = {"token_embd": "embed_tokens", "output_norm": "norm"}
_CONTROL_TOKEN = 3


def write_model_folder(gguf_path: Path, folder: Path) -> None:
    """Write config, weights (bfloat16), generation config and tokenizer into `folder`, which must exist.

    Raises UsageError when the file holds another architecture or tokenizer.
    """
    import gguf
    import torch
    from safetensors.torch import save_file

    reader = gguf.GGUFReader(gguf_path)
    meta = {key: field.contents() for key, field in reader.fields.items()}
    for key, known in (
        ("general.architecture", "llama"),
        ("tokenizer.ggml.model", "gpt2"),
        ("tokenizer.ggml.pre", "smollm"),
    ):
        if meta.get(key) != known:
            raise UsageError(
                f"{gguf_path.name} has {key} = {meta.get(key)!r}, only {known!r} can be converted"
            )
    config = _make_config(meta)
    weights = {name: torch.tensor(array).to(torch.bfloat16) for name, array in _read_weights(reader, config)}
    if "lm_head.weight" not in weights:
        config["tie_word_embeddings"] = True
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    _write_json(folder / "config.json", config)
    _write_json(folder / "generation_config.json", _make_generation_config(meta))
    _make_tokenizer(meta).save_pretrained(folder)


def _make_config(meta: dict[str, Any]) -> dict[str, Any]:
    heads = meta["llama.attention.head_count"]
    width = meta["llama.embedding_length"]
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "dtype": "bfloat16",
        "vocab_size": meta["llama.vocab_size"],
        "hidden_size": width,
        "intermediate_size": meta["llama.feed_forward_length"],
        "num_hidden_layers": meta["llama.block_count"],
        "num_attention_heads": heads,
        "num_key_value_heads": meta["llama.attention.head_count_kv"],
        "head_dim": width // heads,
        "hidden_act": "silu",
        "max_position_embeddings": meta["llama.context_length"],
        "rms_norm_eps": round(meta["llama.attention.layer_norm_rms_epsilon"], 9),
        "rope_parameters": {"rope_type": "default", "rope_theta": meta["llama.rope.freq_base"]},
        "rope_theta": meta["llama.rope.freq_base"],
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": False,
        "bos_token_id": meta["tokenizer.ggml.bos_token_id"],
        "eos_token_id": meta["tokenizer.ggml.eos_token_id"],
        "pad_token_id": meta["tokenizer.ggml.padding_token_id"],
    }


def _make_generation_config(meta: dict[str, Any]) -> dict[str, Any]:
    return {
        "bos_token_id": meta["tokenizer.ggml.bos_token_id"],
        "eos_token_id": meta["tokenizer.ggml.eos_token_id"],
        "pad_token_id": meta["tokenizer.ggml.padding_token_id"],
    }


def _read_weights(reader: Any, config: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield each tensor's name in transformers and its values, float32."""
    from gguf.quants import dequantize

    for tensor in reader.tensors:
        values = dequantize(tensor.data, tensor.tensor_type)
        name = tensor.name.removesuffix(".weight")
        if name == "output":
            yield "lm_head.weight", values
        elif name in _TOP_TENSORS:
            yield f"model.{_TOP_TENSORS[name]}.weight", values
        else:
            _, layer, kind = name.split(".")
            if kind == "attn_q":
                values = _unpair_rotary_rows(values, config["num_attention_heads"])
            elif kind == "attn_k":
                values = _unpair_rotary_rows(values, config["num_key_value_heads"])
            yield f"model.layers.{layer}.{_LAYER_TENSORS[kind]}.weight", values


def _unpair_rotary_rows(weight: Any, heads: int) -> Any:
    """Undo llama.cpp's row order: it keeps each rotary pair side by side, transformers half a head apart."""
    rows, columns = weight.shape
    paired = weight.reshape(heads, rows // heads // 2, 2, columns)
    return paired.swapaxes(1, 2).reshape(rows, columns).copy()


def _make_tokenizer(meta: dict[str, Any]) -> Any:
    """Byte-level BPE, every digit a token of its own, as `pre = smollm` means in llama.cpp."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    tokens: list[str] = meta["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ", 1)) for merge in meta["tokenizer.ggml.merges"]]
    inner = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=merges))
    inner.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    inner.decoder = decoders.ByteLevel()
    kinds = meta["tokenizer.ggml.token_type"]
    inner.add_special_tokens(
        [
            AddedToken(token, special=True, normalized=False)
            for token, kind in zip(tokens, kinds, strict=True)
            if kind == _CONTROL_TOKEN
        ]
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner,
        bos_token=tokens[meta["tokenizer.ggml.bos_token_id"]],
        eos_token=tokens[meta["tokenizer.ggml.eos_token_id"]],
        unk_token=tokens[meta["tokenizer.ggml.unknown_token_id"]],
        pad_token=tokens[meta["tokenizer.ggml.padding_token_id"]],
        model_max_length=meta["llama.context_length"],
        clean_up_tokenization_spaces=False,
    )
    tokenizer.chat_template = meta["tokenizer.chat_template"]
    return tokenizer


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
