"""Score given ids on the path that sampling uses: slot cache, prefix snapshots, single decode steps."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from castform_trainer.engines.transformers_cache import SlotCache
from castform_trainer.engines.transformers_forward import Chunk, SlotModel
from castform_trainer.engines.transformers_prefix import PrefixCache

_DECODED = 4
"""Last ids that are scored by single decode steps."""


def score_ids(model: SlotModel, ids: Sequence[int], prefixes: PrefixCache | None) -> list[float]:
    """Return log p of ids[1:] given what precedes each, temperature 1.

    The first half is prefilled; the second goes on from whatever the prefix cache offers for
    it, stale or not, and the last ids are decoded one by one.
    """
    half = len(ids) // 2
    cache = SlotCache()
    parts = [model.prefill(cache, 0, [Chunk(ids=ids[:half], start=0)], all_logits=True)]
    match = prefixes.find(ids[: half + 1]) if prefixes is not None else None
    if match is not None:
        cache.restore(0, *match)
    elif prefixes is not None:
        prefixes.add(ids[:half], cache.take_snapshot(0, half))
    last = len(ids) - 1
    tail = max(half, last - _DECODED)
    if tail > half:
        chunk = Chunk(ids=ids[half:tail], start=half)
        parts.append(model.prefill(cache, 0, [chunk], all_logits=True))
    parts += [model.decode(cache, [ids[at]], [at]) for at in range(tail, last)]
    return _pick(torch.cat(parts), ids[1:])


def _pick(logits_NV: Tensor, ids: Sequence[int]) -> list[float]:
    index = torch.tensor(list(ids), device=logits_NV.device)[:, None]
    values: list[float] = logits_NV.float().log_softmax(-1).gather(-1, index)[:, 0].tolist()
    return values
