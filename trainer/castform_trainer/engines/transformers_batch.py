"""One batch of replies in flight: rows join by a prefill, advance a token a step, and leave when done."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field

import torch
from torch import Tensor

from castform.calls import Sampling
from castform_trainer.engines.contract import FinishReason, Generation
from castform_trainer.engines.transformers_cache import SlotCache
from castform_trainer.engines.transformers_forward import Chunk, SlotModel
from castform_trainer.engines.transformers_prefix import MIN_PREFIX, PrefixCache, shared_length
from castform_trainer.engines.transformers_sampling import Draw, draw_tokens

Decode = Callable[[Sequence[int]], str]
"""Ids to text, special tokens included."""


@dataclass(kw_only=True, slots=True, eq=False)
class Row:
    """A reply: what was asked and what has been sampled so far."""

    prompt_ids: tuple[int, ...]
    sampling: Sampling
    version: int
    limit: int
    """Most tokens of the reply, the context budget included."""
    end_ids: frozenset[int]
    future: Future[Generation] = field(default_factory=Future)
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    cached: int = 0
    """Tokens of prompt and reply whose keys and values are in the cache."""

    @property
    def most_tokens(self) -> int:
        """Prompt and the longest reply."""
        return len(self.prompt_ids) + self.limit

    def read(self, reason: FinishReason) -> Generation:
        """Return what has been sampled so far; from any thread."""
        logprobs = tuple(self.logprobs)  # written after the ids
        return Generation(
            ids=tuple(self.ids[: len(logprobs)]),
            logprobs=logprobs,
            finish_reason=reason,
            version=self.version,
        )

    def finish(self, reason: FinishReason) -> None:
        """Answer with what there is. A caller that has gone is no error."""
        try:
            self.future.set_result(self.read(reason))
        except InvalidStateError:
            return

    def fail(self, error: BaseException) -> None:
        """Answer with an error."""
        try:
            self.future.set_exception(error)
        except InvalidStateError:
            return


@dataclass(kw_only=True, slots=True)
class BatchStats:
    """What a batch has computed since the start."""

    prefill_tokens: int = 0
    decode_tokens: int = 0
    decode_steps: int = 0
    prefill_seconds: float = 0.0
    decode_seconds: float = 0.0


class Batch:
    """Rows of one adapter version, in slots 0 .. n - 1 of a cache."""

    def __init__(
        self,
        model: SlotModel,
        *,
        prefixes: PrefixCache | None,
        decode: Decode,
        prefill_tokens: int,
        stats: BatchStats,
    ) -> None:
        """`prefixes` None switches reuse off; a prefill pass takes at most about `prefill_tokens`."""
        self.rows: list[Row] = []
        self._model = model
        self._cache = SlotCache()
        self._prefixes = prefixes
        self._decode = decode
        self._prefill_tokens = prefill_tokens
        self._stats = stats

    def admit(self, rows: Sequence[Row]) -> None:
        """Prefill the distinct prompts of `rows`, in slots after the present ones, and draw first tokens."""
        started = time.perf_counter()
        longest = max(row.most_tokens for row in rows)
        if not self.rows and self._cache.capacity > 4 * longest:
            self._cache.clear()
        self._cache.reserve(len(self.rows) + len(rows), longest)
        siblings: dict[tuple[int, ...], list[Row]] = {}
        for row in rows:
            siblings.setdefault(row.prompt_ids, []).append(row)
        prompts = list(siblings)
        base = len(self.rows)
        starts = self._restore_prefixes(base, prompts)
        logits = self._prefill(base, prompts, starts)
        if self._prefixes is not None:
            for index, prompt in enumerate(prompts):
                self._prefixes.add(prompt, self._cache.take_snapshot(base + index, len(prompt)))
        firsts = [group[0] for group in siblings.values()]
        others = [row for group in siblings.values() for row in group[1:]]
        slot = base + len(firsts)
        for index, group in enumerate(siblings.values()):
            targets = range(slot, slot + len(group) - 1)
            self._cache.copy_row(base + index, targets, len(group[0].prompt_ids))
            slot += len(group) - 1
        source = {row.prompt_ids: index for index, row in enumerate(firsts)}
        joined = [*firsts, *others]
        for row in joined:
            row.cached = len(row.prompt_ids)
        self.rows += joined
        self._stats.prefill_seconds += time.perf_counter() - started
        self._take_tokens(joined, logits[[source[row.prompt_ids] for row in joined]])

    def step(self) -> None:
        """Advance every row by one token."""
        started = time.perf_counter()
        logits = self._model.decode(
            self._cache, [row.ids[-1] for row in self.rows], [row.cached for row in self.rows]
        )
        for row in self.rows:
            row.cached += 1
        self._stats.decode_tokens += len(self.rows)
        self._stats.decode_steps += 1
        self._take_tokens(list(self.rows), logits)
        self._stats.decode_seconds += time.perf_counter() - started

    def drop_cancelled(self) -> None:
        """Free the slots of rows whose caller has gone."""
        for row in [row for row in self.rows if row.future.cancelled()]:
            self._remove(row)

    def reset(self) -> None:
        """Forget every row, after a failure."""
        self.rows = []
        self._cache.clear()

    def _restore_prefixes(self, base: int, prompts: Sequence[tuple[int, ...]]) -> list[int]:
        """Copy what is known of each prompt into its slot; return where each has to go on."""
        if self._prefixes is None:
            return [0] * len(prompts)
        found = [self._prefixes.find(prompt) for prompt in prompts]
        if len(prompts) > 1:
            shared = min(shared_length(prompts[0], prompt) for prompt in prompts[1:])
            shared = min(shared, *(len(prompt) - 1 for prompt in prompts))
            worst = min(match[1] if match else 0 for match in found)
            if shared - worst >= 2 * MIN_PREFIX:
                # What all of them begin with is computed once.
                prefix = prompts[0][:shared]
                start = self._restore(base, self._prefixes.find(prefix))
                self._run_chunks(base, [Chunk(ids=prefix[start:], start=start)])
                self._prefixes.add(prefix, self._cache.take_snapshot(base, shared))
                found = [self._prefixes.find(prompt) for prompt in prompts]
        return [self._restore(base + index, match) for index, match in enumerate(found)]

    def _restore(self, slot: int, match: tuple[list[tuple[Tensor, Tensor]], int] | None) -> int:
        if match is None:
            return 0
        snapshot, length = match
        self._cache.restore(slot, snapshot, length)
        return length

    def _prefill(self, base: int, prompts: Sequence[tuple[int, ...]], starts: Sequence[int]) -> Tensor:
        """Compute the rest of each prompt, neighbours together; return last logits, a row a prompt."""
        logits: list[Tensor] = []
        chunks: list[Chunk] = []
        slot = base
        for prompt, start in zip(prompts, starts, strict=True):
            chunk = Chunk(ids=prompt[start:], start=start)
            widest = max(len(c.ids) for c in [*chunks, chunk])
            if chunks and widest * (len(chunks) + 1) > self._prefill_tokens:
                logits.append(self._run_chunks(slot, chunks))
                slot += len(chunks)
                chunks = []
            chunks.append(chunk)
        logits.append(self._run_chunks(slot, chunks))
        return torch.cat(logits)

    def _run_chunks(self, slot: int, chunks: Sequence[Chunk]) -> Tensor:
        """Run one prefill pass; a single long chunk is cut along its length."""
        self._stats.prefill_tokens += sum(len(chunk.ids) for chunk in chunks)
        if len(chunks) == 1:
            ids, start, most = chunks[0].ids, chunks[0].start, self._prefill_tokens
            while len(ids) > most:
                self._model.prefill(self._cache, slot, [Chunk(ids=ids[:most], start=start)])
                ids, start = ids[most:], start + most
            chunks = [Chunk(ids=ids, start=start)]
        return self._model.prefill(self._cache, slot, chunks)

    def _take_tokens(self, rows: Sequence[Row], logits_NV: Tensor) -> None:
        ids, logprobs = draw_tokens(
            logits_NV, [Draw(sampling=row.sampling, step=len(row.ids)) for row in rows]
        )
        for row, token, logprob in zip(rows, ids, logprobs, strict=True):
            row.ids.append(token)
            row.logprobs.append(logprob)
            reason = self._find_end(row)
            if reason is not None:
                self._keep_prefix(row)
                self._remove(row)
                row.finish(reason)

    def _find_end(self, row: Row) -> FinishReason | None:
        if row.ids[-1] in row.end_ids:
            return "stop"
        if row.sampling.stop:
            # A token spells at least one byte, so a stop text lies within its last bytes' worth of tokens.
            window = max(len(text.encode()) for text in row.sampling.stop) + 4
            tail = self._decode(row.ids[-window:])
            if any(text in tail for text in row.sampling.stop):
                return "stop"
        return "length" if len(row.ids) >= row.limit else None

    def _keep_prefix(self, row: Row) -> None:
        if self._prefixes is not None and row.cached > len(row.prompt_ids):
            known = (row.prompt_ids + tuple(row.ids))[: row.cached]
            self._prefixes.add(known, self._cache.take_snapshot(self.rows.index(row), row.cached))

    def _remove(self, row: Row) -> None:
        """Free a slot; the last row moves into it."""
        slot = self.rows.index(row)
        last = self.rows.pop()
        if last is not row:
            self._cache.copy_row(len(self.rows), [slot], last.cached)
            self.rows[slot] = last
