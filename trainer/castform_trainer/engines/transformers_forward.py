"""Forward passes of any causal language model over a SlotCache: prefill of several rows, one decode step.

Positions and masks are always explicit, so rows of different length share a pass. A model
that does not compute the same this way as on its own is refused when it is opened.

Dims: B rows, S new tokens a row, L positions that attention reads, V vocabulary.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from castform.errors import UsageError
from castform_trainer.engines.transformers_cache import SlotCache, WritePlan

_KINDS = {"full_attention", "sliding_attention"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Chunk:
    """New tokens of one row."""

    ids: Sequence[int]
    start: int
    """Position of the first; what precedes it lies in the cache already."""


class SlotModel:
    """A model and the way it wants its masks."""

    def __init__(self, model: Any) -> None:
        """`Any`: transformers has no type information. Raises UsageError for an unsupported kind of attention."""
        self.model = model
        self.device = model.device
        config = model.config.get_text_config()
        window = getattr(config, "sliding_window", None)
        kinds = list(getattr(config, "layer_types", None) or [])
        if not kinds:
            kinds = ["sliding_attention" if window else "full_attention"]
        if not set(kinds) <= _KINDS:
            raise UsageError(
                f"{config.model_type} has layers of kind {', '.join(sorted(set(kinds) - _KINDS))}, which the "
                "transformers engine cannot batch",
                hint="use the vllm engine for this model",
            )
        self._window_of_kind = {
            kind: (window if kind == "sliding_attention" else None) for kind in set(kinds)
        }
        self.window: int | None = window if "sliding_attention" in kinds else None
        self.bytes_per_token = 0
        """Keys and values of one token, all layers. Known once `check_same_as_plain` has run."""
        self._adds_mask = model.config._attn_implementation == "eager"
        parameters = inspect.signature(model.forward).parameters
        self._cache_name = "cache" if "cache" in parameters else "past_key_values"
        self._keeps_logits = "logits_to_keep" in parameters

    def prefill(
        self, cache: SlotCache, first_slot: int, chunks: Sequence[Chunk], *, all_logits: bool = False
    ) -> Tensor:
        """Compute new tokens of rows first_slot, first_slot + 1, …; return last logits [B, V].

        With `all_logits` (one row only) return those of every token, [S, V].
        """
        size = max(len(chunk.ids) for chunk in chunks)
        length = max(chunk.start + len(chunk.ids) for chunk in chunks)
        pads = [size - len(chunk.ids) for chunk in chunks]
        ids_BS = torch.tensor([[0] * pad + list(c.ids) for pad, c in zip(pads, chunks, strict=True)])
        positions_BS = torch.tensor(
            [
                [0] * pad + list(range(c.start, c.start + len(c.ids)))
                for pad, c in zip(pads, chunks, strict=True)
            ]
        )
        real_BS = torch.tensor([[False] * pad + [True] * (size - pad) for pad in pads])
        rows, tokens = real_BS.nonzero(as_tuple=True)
        cache.reserve(first_slot + len(chunks), length)
        cache.plan = WritePlan(
            first_slot=first_slot,
            rows=len(chunks),
            read_length=length,
            source_row=rows.to(self.device),
            source_token=tokens.to(self.device),
            position=positions_BS[rows, tokens].to(self.device),
        )
        logits = self._forward(cache, ids_BS, positions_BS, length, keep=0 if all_logits else 1)
        return logits[0] if all_logits else logits[:, -1]

    def decode(self, cache: SlotCache, ids: Sequence[int], lengths: Sequence[int]) -> Tensor:
        """Compute one token a row, rows 0 .. B - 1 of which `lengths` tokens lie in the cache; logits [B, V]."""
        positions = torch.tensor(lengths)
        length = max(lengths) + 1
        rows = torch.arange(len(ids), device=self.device)
        cache.reserve(len(ids), length)
        cache.plan = WritePlan(
            first_slot=0,
            rows=len(ids),
            read_length=length,
            source_row=rows,
            source_token=torch.zeros_like(rows),
            position=positions.to(self.device),
        )
        return self._forward(cache, torch.tensor(ids)[:, None], positions[:, None], length, keep=1)[:, -1]

    def _forward(
        self, cache: SlotCache, ids_BS: Tensor, positions_BS: Tensor, length: int, *, keep: int
    ) -> Tensor:
        keeping = {"logits_to_keep": keep} if self._keeps_logits else {}
        positions_BS = positions_BS.to(self.device)
        masks = {
            kind: self._make_mask(positions_BS, length, window)
            for kind, window in self._window_of_kind.items()
        }
        logits: Tensor = self.model(
            input_ids=ids_BS.to(self.device),
            position_ids=positions_BS,
            attention_mask=masks if len(masks) > 1 else next(iter(masks.values())),
            use_cache=True,
            **{self._cache_name: cache},
            **keeping,
        ).logits
        return logits

    def _make_mask(self, positions_BS: Tensor, length: int, window: int | None) -> Tensor:
        """[B, 1, S, L], True where a token may look; padding looks at position 0, and nobody looks at it."""
        keys_L = torch.arange(length, device=self.device)
        mask_BSL = keys_L <= positions_BS[:, :, None]
        if window is not None:
            mask_BSL = mask_BSL & (keys_L > positions_BS[:, :, None] - window)
        mask = mask_BSL[:, None]
        if not self._adds_mask:
            return mask
        dtype = self.model.dtype
        return torch.zeros(mask.shape, dtype=dtype, device=self.device).masked_fill_(
            ~mask, torch.finfo(dtype).min
        )


def check_same_as_plain(slots: SlotModel) -> None:
    """Raise UsageError when the model answers otherwise over a SlotCache than on its own.

    Goes once through a padded prefill, a continued one and decode steps with two rows, about
    30 tokens (up to 80 when there is a short attention window).
    """
    vocabulary = slots.model.config.get_text_config().vocab_size
    short_window = slots.window if slots.window is not None and slots.window <= 64 else 0
    ids = [(7 * i + 11) % min(vocabulary, 251) for i in range(16 + short_window)]
    others = ids[3:12]
    plain = slots.model(input_ids=torch.tensor([ids], device=slots.device), use_cache=False).logits[0]
    cache = SlotCache()
    cut = len(ids) - 8
    slots.prefill(cache, 0, [Chunk(ids=ids[:cut], start=0), Chunk(ids=others, start=0)])
    middle = slots.prefill(cache, 0, [Chunk(ids=ids[cut : cut + 4], start=cut)], all_logits=True)
    steps = [
        slots.decode(cache, [ids[at], 5], [at, len(others) + at - cut - 4])[0]
        for at in range(cut + 4, len(ids))
    ]
    slots.bytes_per_token = cache.bytes_per_token()
    found = torch.stack([*middle, *steps]).float().log_softmax(-1)
    expected = plain[cut:].float().log_softmax(-1)
    worst = float((found - expected).abs().max())
    allowed = 2e-3 if plain.dtype == torch.float32 else 0.5
    if not worst <= allowed:
        raise UsageError(
            f"{slots.model.config.model_type} does not compute the same in the transformers engine's batches "
            f"as on its own (log probabilities differ by {worst:.3g})",
            hint="use the vllm engine for this model",
        )
