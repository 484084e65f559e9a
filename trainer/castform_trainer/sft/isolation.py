"""Before the first step: does this model keep packed rows apart?

Attention does, by the mask. A layer of another kind (a recurrence, a convolution over tokens)
reads on from one row into the next and cannot be told not to.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import torch

from castform.errors import UsageError
from castform_trainer.sft.batch import Sample, make_batch
from castform_trainer.sft.learner import SftLearner

PROBE_TOKENS = 12
TOLERANCES = {torch.float64: 1e-6, torch.float32: 1e-3, torch.bfloat16: 0.1, torch.float16: 0.05}
"""Largest mean |difference| of log p, in nats, that rounding explains."""


def check_isolation(learner: SftLearner, samples: Sequence[Sample]) -> None:
    """Raise UsageError unless three rows score packed as they do alone, in numbers."""
    cut = [
        Sample(
            row=place,
            ids=(place, *sample.ids[:PROBE_TOKENS]),
            weights=(0.0, *[1.0] * len(sample.ids[:PROBE_TOKENS])),
        )
        for place, sample in enumerate(samples[:3])
    ]  # their first ids differ, so that they share no prefix
    packed, alone = (_score(learner, cut, packing=packing) for packing in (True, False))
    if not all(map(math.isfinite, alone)):
        raise UsageError(
            f"the model gives no number as the likelihood of a row, in {learner.compute_dtype}",
            hint='its weights are damaged, or too large for the format: try model.dtype = "float32"',
        )
    gap = statistics.fmean(abs(a - b) for a, b in zip(packed, alone, strict=True))
    if not gap <= TOLERANCES[learner.compute_dtype]:
        raise UsageError(
            f"this model does not keep packed rows apart: packed they score {gap:.3f} nats a token "
            "otherwise than alone",
            hint="batch.packing = false trains each row by itself, which is right for every model",
        )


@torch.no_grad()  # type: ignore[untyped-decorator]  # torch is untyped here
def _score(learner: SftLearner, samples: Sequence[Sample], *, packing: bool) -> list[float]:
    """Return log p of the tokens of all samples, in their order."""
    batch = make_batch(samples, tokens_per_microbatch=10_000, packing=packing, window=learner.window)
    found: list[tuple[int, list[float]]] = []
    for micro in batch.micro_batches:
        values = learner.score(micro.tensors.to(learner.device), rows=micro.rows).double().cpu()
        by_sample = values[micro.tensors.pairs_O]
        for place in micro.samples_O.unique().tolist():
            found.append((place, by_sample[micro.samples_O == place].tolist()))
    return [value for _, values in sorted(found, key=lambda item: item[0]) for value in values]
