"""Tiny random models with a real chat template, for tests that need the whole path but no weights.

A model has 2 layers of width 64 by default and is saved as an ordinary folder, so everything
that opens a model opens it. Same arguments, same bytes of weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

TinyKind = Literal["qwen3", "llama", "mistral", "gemma3"]

SPECIAL_TOKENS = ("<|pad|>", "<|im_start|>", "<|im_end|>")

CHATML_TEMPLATE = """\
{%- if tools %}
{{- '<|im_start|>system\\n' }}
{%- if messages and messages[0]['role'] == 'system' %}
{{- messages[0]['content'] + '\\n\\n' }}
{%- endif %}
{{- 'Functions you may call, as JSON:\\n<tools>\\n' }}
{%- for tool in tools %}
{{- tool | tojson }}{{- '\\n' }}
{%- endfor %}
{{- '</tools>\\nCall one with <tool_call>{"name": ..., "arguments": {...}}</tool_call>.<|im_end|>\\n' }}
{%- elif messages and messages[0]['role'] == 'system' %}
{{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
{%- if message['role'] == 'assistant' %}
{{- '<|im_start|>assistant\\n' + (message['content'] or '') }}
{%- for call in message['tool_calls'] or [] %}
{%- if message['content'] or not loop.first %}{{- '\\n' }}{%- endif %}
{{- '<tool_call>\\n{"name": "' + call['function']['name'] + '", "arguments": ' }}
{%- if call['function']['arguments'] is string %}{{- call['function']['arguments'] }}
{%- else %}{{- call['function']['arguments'] | tojson }}
{%- endif %}
{{- '}\\n</tool_call>' }}
{%- endfor %}
{{- '<|im_end|>\\n' }}
{%- elif message['role'] == 'tool' %}
{{- '<|im_start|>user\\n<tool_response>\\n' + message['content'] + '\\n</tool_response><|im_end|>\\n' }}
{%- elif message['role'] != 'system' or not loop.first %}
{{- '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}
"""
"""ChatML with hermes tool calls; it never rewrites history."""


def make_tiny_model(
    folder: Path,
    kind: TinyKind = "qwen3",
    *,
    seed: int = 0,
    layers: int = 2,
    width: int = 64,
    max_positions: int = 512,
    sliding_window: int = 16,
    merges: Sequence[tuple[str, str]] = (),
    chat_template: str | None = CHATML_TEMPLATE,
) -> Path:
    """Save a random model and its tokenizer into `folder` and return the folder.

    `mistral` attends within `sliding_window` tokens in every layer, `gemma3` in every other one.
    The tokenizer knows the 256 bytes and three special tokens; `merges` adds BPE merges in the
    byte-level alphabet (a space is "Ġ"), in order, for tests of retokenisation.
    """
    import torch
    from transformers import AutoModelForCausalLM, GenerationConfig

    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = make_tiny_tokenizer(merges=merges, chat_template=chat_template)
    config = _make_config(kind, len(tokenizer), layers, width, max_positions, sliding_window)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
        _widen_logits(model)
    model.generation_config = GenerationConfig(
        bos_token_id=1, eos_token_id=2, pad_token_id=0, do_sample=False
    )
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def make_tiny_tokenizer(
    *, merges: Sequence[tuple[str, str]] = (), chat_template: str | None = CHATML_TEMPLATE
) -> Any:
    """Return a byte-level tokenizer: ids 0 to 2 are special, then the 256 bytes, then the merges.

    `Any`: transformers has no type information.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    tokens = [*SPECIAL_TOKENS, *sorted(pre_tokenizers.ByteLevel.alphabet()), *(a + b for a, b in merges)]
    inner = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=list(merges)))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner,
        pad_token="<|pad|>",
        bos_token="<|im_start|>",
        eos_token="<|im_end|>",
        clean_up_tokenization_spaces=False,
    )
    if chat_template is not None:
        tokenizer.chat_template = chat_template
    return tokenizer


def make_tiny_adapter(
    model_folder: Path, folder: Path, *, seed: int = 0, rank: int = 4, scale: float = 0.3
) -> Path:
    """Save a random LoRA on all linear layers of a model, both halves non-zero, and return its folder."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.float32)
    config = LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear", task_type="CAUSAL_LM")
    adapted = get_peft_model(model, config)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in adapted.named_parameters():
            if "lora_" in name:
                weight.copy_(scale * torch.randn(weight.shape, generator=generator) / weight.shape[1] ** 0.5)
    adapted.save_pretrained(folder)
    return folder


def _make_config(
    kind: TinyKind, vocabulary: int, layers: int, width: int, max_positions: int, sliding_window: int
) -> Any:
    from transformers import AutoConfig

    shape: dict[str, Any] = {
        "vocab_size": vocabulary,
        "hidden_size": width,
        "intermediate_size": 2 * width,
        "num_hidden_layers": layers,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": width // 4,
        "max_position_embeddings": max_positions,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "pad_token_id": 0,
        "tie_word_embeddings": True,
    }
    if kind == "mistral":
        shape["sliding_window"] = sliding_window
    if kind == "gemma3":
        kind_of_layer = ["sliding_attention", "full_attention"]
        shape["sliding_window"] = sliding_window
        shape["layer_types"] = [kind_of_layer[i % 2] for i in range(layers)]
        shape["query_pre_attn_scalar"] = width // 4
        return AutoConfig.for_model("gemma3_text", **shape)
    return AutoConfig.for_model(kind, **shape)


def _widen_logits(model: Any) -> None:
    """Make the random model's distribution uneven, so that a wrong logit shows."""
    import torch

    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() == 2:
                weight.mul_(4.0 if "embed" in name else 2.0)
