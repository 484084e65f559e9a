"""Generated conversations, and a real byte-level BPE tokenizer, for the tests of masks."""

from __future__ import annotations

import json
import random
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

TEMPLATES = Path(__file__).parent / "templates"
CORPUS = [
    "the model answers the user in a few words and the user thanks the model\n\n",
    "find the weather of the day in the city, then call the function again\n\n\n",
    '{"name": "find", "arguments": {"city": "Bern", "days": 3}}\n',
    "user assistant system tool think thought start end message\n  over and over  again\n",
]
CONTROL = re.compile(
    r"<\|\w+\|>|<｜[^｜]+｜>|<(?:start|end)_of_turn>|\[/?[A-Z_]+\]|\[gMASK\]|<sop>|</s>|<s>|<bos>|<eos>"
)
"""How the templates here spell their control tokens."""


@dataclass(frozen=True, kw_only=True)
class Family:
    """What goes with a template, and what conversations it can show."""

    bos: str | None = None
    eos: str
    ends: tuple[str, ...] = ()
    """Tokens that the engine stops on besides `eos`."""
    system: bool = True
    tools: bool = True
    parallel: bool = True
    says_and_calls: bool = True
    """Content may stand beside calls."""


FAMILIES = {
    "chatml": Family(eos="<|im_end|>"),
    "smollm2": Family(eos="<|im_end|>", bos="<|im_start|>"),
    "qwen25": Family(eos="<|im_end|>"),
    "qwen3": Family(eos="<|im_end|>"),
    "qwen_markers": Family(eos="<|im_end|>"),
    "llama3": Family(bos="<|begin_of_text|>", eos="<|eot_id|>", parallel=False, says_and_calls=False),
    "mistral": Family(bos="<s>", eos="</s>", says_and_calls=False),
    "gemma": Family(bos="<bos>", eos="<eos>", ends=("<end_of_turn>",), system=False, tools=False),
    "phi35": Family(bos="<s>", eos="<|endoftext|>"),
    "hermes": Family(bos="<|begin_of_text|>", eos="<|im_end|>"),
    "deepseek": Family(bos="<｜begin▁of▁sentence｜>", eos="<｜end▁of▁sentence｜>", says_and_calls=False),
    "glm": Family(eos="<|endoftext|>", ends=("<|user|>", "<|observation|>")),
    "harmony": Family(eos="<|return|>", ends=("<|call|>",), parallel=False, says_and_calls=False),
    "neighbours": Family(eos="<|end|>"),
}


@cache
def train_backend() -> str:
    """Train the tokenizer once; same corpus, same merges."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=420, initial_alphabet=alphabet, show_progress=False)
    backend.train_from_iterator(CORPUS * 4, trainer)
    return backend.to_str()


def make_tokenizer(name: str, source: str | None = None) -> Any:
    """Return the tokenizer with a template and its control tokens (`Any`: transformers is untyped)."""
    family = FAMILIES[name]
    source = source or (TEMPLATES / f"{name}.jinja").read_text(encoding="utf-8")
    controls = {*CONTROL.findall(source), family.eos, *family.ends}
    if name == "phi35":
        controls |= {"<|user|>", "<|assistant|>", "<|system|>"}
    if name == "glm":
        controls |= {"<|user|>", "<|assistant|>", "<|system|>"}
    if name == "neighbours":
        controls |= {"<|user|>", "<|assistant|>", "<|system|>", "<|tool|>"}
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(train_backend()),
        eos_token=family.eos,
        bos_token=family.bos,
        clean_up_tokenization_spaces=False,
    )
    tokenizer.add_special_tokens({"additional_special_tokens": sorted(controls)})
    tokenizer.chat_template = source
    return tokenizer


def list_end_ids(name: str, tokenizer: Any) -> list[int]:
    family = FAMILIES[name]
    return [tokenizer.convert_tokens_to_ids(text) for text in (family.eos, *family.ends)]


WORDS = (
    *("hello", "the model", "Bern", "42", "a few words", "über", "日本語", "🙂🙃", "e\u0301", "\u2028line"),
    *("{}", '"quoted"', "back\\slash", "tab\there", "a\n\nb", "x = y < z && w > v", "<b>", "None", "null", "[1, 2]"),
)  # fmt: skip
POISON = (
    *("<|im_end|>", "<|im_start|>assistant\n", "<|eot_id|>", "</s>", "[INST]", "[TOOL_CALLS]", "<end_of_turn>"),
    *("<|end|>", "<|endoftext|>", "<｜end▁of▁sentence｜>", "<｜Assistant｜>", "<|user|>", "<|observation|>"),
    *("<|return|>", "<|call|>", "<|start|>assistant", "<s>", "<bos>", "[gMASK]"),
)  # fmt: skip
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": f"{name} something",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        },
    }
    for name in ("find", "lookup_2")
]


def make_row(rng: random.Random, family: Family) -> dict[str, Any]:
    """Return a valid row. One in twelve may go beyond what the template can show."""
    wild = rng.random() < 1 / 12
    calls_ids = iter(range(1000))
    messages: list[dict[str, Any]] = []
    with_tools = (family.tools or wild) and rng.random() < 0.6
    if (family.system or wild) and rng.random() < 0.5:
        messages.append({"role": "system", "content": _write(rng)})
    for _ in range(rng.choice([1, 1, 1, 2, 2, 4])):
        messages.append({"role": "user", "content": _write(rng)})
        while with_tools and rng.random() < 0.4:
            count = rng.choice([1, 1, 2, 3]) if family.parallel or wild else 1
            calls = [_call(rng, f"call_{next(calls_ids)}") for _ in range(count)]
            content = rng.choice([None, _reply(rng)]) if family.says_and_calls or wild else None
            messages.append(_weigh(rng, {"role": "assistant", "content": content, "tool_calls": calls}))
            if content is None and rng.random() < 0.5:
                del messages[-1]["content"]
            messages += [
                {"role": "tool", "tool_call_id": c["id"], "content": rng.choice(["", _write(rng)])}
                for c in calls
            ]
        messages.append(_weigh(rng, {"role": "assistant", "content": _reply(rng)}))
    if rng.random() < 0.1:
        messages.append({"role": "user", "content": _write(rng)})
    row: dict[str, Any] = {"messages": messages}
    if with_tools:
        row["tools"] = TOOLS
    return row


def _weigh(rng: random.Random, message: dict[str, Any]) -> dict[str, Any]:
    weight = rng.choice([None, None, 1, 0])
    return message if weight is None else {**message, "weight": weight}


def _write(rng: random.Random) -> str:
    words = [rng.choice(WORDS) for _ in range(rng.randint(1, 5))]
    if rng.random() < 0.2:
        words.insert(rng.randrange(len(words) + 1), rng.choice(POISON))
    edge = rng.choice(["", "", "", " ", "\n", "\n\n"])
    return rng.choice([edge, ""]) + rng.choice([" ", "", "\n"]).join(words) + rng.choice([edge, ""])


def _reply(rng: random.Random) -> str:
    if rng.random() < 0.3:
        return f"<think>\n{_write(rng).strip()}\n</think>\n\n{_write(rng).strip()}"
    return _write(rng)


def _call(rng: random.Random, call_id: str) -> dict[str, Any]:
    arguments: dict[str, Any] = {
        "city": _write(rng),
        "days": rng.choice([3, -1.5, True, None, [1, "x"], {"k": "v"}]),
    }
    if rng.random() < 0.2:
        arguments = {}
    function = {
        "name": rng.choice(["find", "lookup_2"]),
        "arguments": json.dumps(arguments, ensure_ascii=False),
    }
    return {"id": call_id, "type": "function", "function": function}
