"""About 64 fixed tokens and what a trained model makes of them, so that anyone can check a copy of it.

Letters: T tokens, R scored ones, V vocabulary.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from castform_trainer.learning.learner import Learner

CANARY_TOKENS = 64
CANARY_TEXT = (
    "A lighthouse keeper counts the boats at dusk: three with red sails, two with white, and one "
    "that has no sail at all. Seven nets hang by the pier. If every boat takes one net, how many "
    "nets are left? The keeper writes down the number, locks the door and lights the lamp, as on "
    "each evening since the winter storm of 1904 took the old bridge away."
)


def make_canary_ids(tokenizer: Any) -> list[int]:
    """Return the fixed ids, the same for the same tokenizer. `Any`: transformers is untyped."""
    ids = [int(i) for i in tokenizer.encode(CANARY_TEXT, add_special_tokens=False)][:CANARY_TOKENS]
    return ids if len(ids) >= 2 else list(range(min(CANARY_TOKENS, len(tokenizer))))


def score_ids(learner: Learner, ids: Sequence[int]) -> list[float]:
    """Return log p of ids[1:] at temperature 1, as a plain forward pass gives it.

    Without autocast: all weights that were trained in float32 are scored in float32, the format
    they are saved in.
    """
    ids_T = torch.tensor(list(ids), device=learner.device)
    places_R = torch.arange(len(ids) - 1, device=learner.device)
    with torch.no_grad():
        logits_RV = learner.rectangle_logits(ids_T[None], places_R)
        scores_R = logits_RV.float().log_softmax(-1).gather(-1, ids_T[1:, None])[:, 0]
    values: list[float] = scores_R.tolist()
    return values


def save_canary(path: Path, ids: Sequence[int], logprobs: Sequence[float]) -> None:
    """Write the ids and the trained model's log p of ids[1:], so that anyone can check a copy of it."""
    value = {"ids": list(ids), "logprobs": list(logprobs), "temperature": 1.0}
    path.write_text(json.dumps(value), encoding="utf-8")


def mean_gap(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the mean |difference|; NaN when either has one."""
    return statistics.fmean(abs(a - b) for a, b in zip(first, second, strict=True))
