"""What both trainers are given: prompts, reward, sizes. Standard library only: two environments import it.

The reward is a number that any reply gets from a hash, so that every group has spread and
both sides train all of it; the learning rate is so small that replies stay as long as the
base model's on both sides. What is timed does not depend on what is learned.
"""

from __future__ import annotations

import argparse
import hashlib
import json

PROMPTS_PER_STEP = 8
SAMPLES_PER_PROMPT = 8
MAX_NEW_TOKENS = 48
LORA_RANK = 16
LORA_ALPHA = 32
LEARNING_RATE = 1e-6


def make_prompts(split: str = "train") -> list[list[dict[str, str]]]:
    """Return different chats of a rule, a solved example and a sum: 56 to train on, 8 to evaluate on."""
    head = [
        {"role": "system", "content": "Answer with the number alone between <answer> and </answer>."},
        {"role": "user", "content": "What is 30 + 4?"},
        {"role": "assistant", "content": "<answer>34</answer>"},
    ]
    pairs = [(first, second) for first in range(2, 10) for second in range(2, 10)]
    chats = [[*head, {"role": "user", "content": f"What is {first} + {second}?"}] for first, second in pairs]
    return chats[8:] if split == "train" else chats[:8]


def reward(reply: str) -> float:
    """Return a number in [0, 1) that depends on every character of the reply."""
    return int.from_bytes(hashlib.sha256(reply.encode()).digest()[:8], "big") / 2**64


def read_arguments() -> argparse.Namespace:
    """Return model (a folder) and steps."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--steps", type=int, required=True)
    return parser.parse_args()


def print_steps(steps: list[dict[str, float]]) -> None:
    """Hand the steps' figures, `seconds` and `tokens` among them, to the bench."""
    print("RESULT " + json.dumps(steps), flush=True)
