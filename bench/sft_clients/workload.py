"""What both trainers are given: token ids, masks and sizes. Standard library only: two environments import it.

Both take the same rows in every step, as token ids with the same mask, and a learning rate so
small that the loss of each step is that of the base model: what is timed does not depend on
what is learned, and the losses can be compared.
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path
from typing import Any

ROWS_PER_STEP = 16
TOKENS_PER_PACK = 512
LORA_RANK = 16
LORA_ALPHA = 32
LEARNING_RATE = 1e-7


def make_rows(*, shared_prompt: bool) -> list[dict[str, Any]]:
    """Return short chats about parcels, under one system prompt or none."""
    draw = random.Random(0)
    system = {
        "role": "system",
        "content": "You write to customers of a parcel service. Be brief and friendly, and name the number.",
    }
    rows = []
    for number in range(ROWS_PER_STEP):
        city = draw.choice(["Lyon", "Oslo", "Porto", "Graz", "Turku"])
        days = draw.randrange(2, 9)
        more = " ".join(
            draw.sample(["It is", "a gift", "for my", "aunt and", "fragile", "too"], draw.randrange(6))
        )
        messages = [
            {"role": "user", "content": f"Where is parcel {number + 4071}? It goes to {city}. {more}"},
            {
                "role": "assistant",
                "content": f"Parcel {number + 4071} is on its way to {city} and arrives in {days} days. "
                + "Thank you for waiting! " * draw.randrange(3),
            },
        ]
        rows.append({"messages": [system, *messages] if shared_prompt else messages})
    return rows


def read_arguments() -> argparse.Namespace:
    """Return model (a folder), rows (a file of ids and masks), steps, packing."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--rows", type=Path, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--packing", action="store_true")
    return parser.parse_args()


def read_rows(path: Path) -> list[dict[str, list[int]]]:
    """Return `{ids, trained}` rows."""
    rows: list[dict[str, list[int]]] = json.loads(path.read_text(encoding="utf-8"))
    return rows


def print_steps(steps: list[dict[str, float]]) -> None:
    """Hand the steps' figures, seconds and loss, to the bench."""
    print("RESULT " + json.dumps(steps), flush=True)
