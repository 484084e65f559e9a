"""The in-process engine: any causal language model of transformers, on the CPU or one GPU.

One worker thread owns the model. Between two decode steps it lets waiting requests in and
finished ones out; requests with the same prompt share its prefill. Rows of one batch use one
adapter version: a request for another version waits until the batch has drained.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from castform.calls import Sampling
from castform.config import RunConfig
from castform.errors import ConfigError, UsageError
from castform_trainer.engines.contract import Generation, GenerationCancelled
from castform_trainer.engines.lora_folder import LoraLayer, load_lora_folder
from castform_trainer.engines.transformers_batch import Batch, BatchStats, Decode, Row
from castform_trainer.engines.transformers_canary import score_ids
from castform_trainer.engines.transformers_forward import SlotModel, check_same_as_plain
from castform_trainer.engines.transformers_linear import AdapterSwitch
from castform_trainer.engines.transformers_options import parse_options
from castform_trainer.engines.transformers_prefix import PrefixCache
from castform_trainer.models import ModelFolder, load_causal_lm, load_tokenizer

Adapter = Mapping[str, LoraLayer]


@dataclass(kw_only=True, slots=True, eq=False)
class _Scoring:
    """A waiting call of `logprobs`."""

    ids: tuple[int, ...]
    version: int
    adapter: Adapter
    future: Future[list[float]] = field(default_factory=Future)


@dataclass(kw_only=True, slots=True, eq=False)
class _Waiting:
    """A row that has not been admitted. It keeps its adapter, so unloading cannot pull it away."""

    row: Row
    adapter: Adapter

    @property
    def version(self) -> int:
        return self.row.version

    @property
    def future(self) -> Future[Generation]:
        return self.row.future


class TransformersEngine:
    """See `contract.Engine` for the methods."""

    def __init__(
        self,
        folder: ModelFolder,
        *,
        device: str | None = None,
        dtype: str | None = None,
        max_batch: int = 64,
        threads: int | None = None,
        deterministic: bool = False,
        max_context_tokens: int | None = None,
        prefix_cache_mb: int = 256,
        kv_cache_mb: int = 4096,
        prefill_tokens: int = 2048,
        prepack: bool = True,
    ) -> None:
        """Load the model and start the worker.

        `device` and `dtype` default to the folder's. `deterministic` computes every row by itself:
        a reply is then the same bits whatever else runs. `kv_cache_mb` bounds keys and values
        (one row always runs). `prepack` keeps CPU weights a second time in oneDNN's layout.
        Raises UsageError for a model that cannot be loaded or batched.
        """
        self.name = "transformers"
        self.stats = BatchStats()
        model = load_causal_lm(folder.path, dtype=dtype or folder.dtype, device=device or folder.device)
        tokenizer = load_tokenizer(folder)
        self._decode = _make_decode(tokenizer)
        config = model.config.get_text_config()
        own = int(getattr(config, "max_position_embeddings", 0) or 2048)
        self.max_context_tokens = min(own, max_context_tokens or own)
        self.eos_token_ids = _find_eos_token_ids(model, tokenizer)
        self._slots = SlotModel(model)
        self._switch = AdapterSwitch(model, packs=prepack)
        self._max_batch = max_batch
        self._max_kv_bytes = kv_cache_mb << 20
        self._prefill_tokens = prefill_tokens
        self._deterministic = deterministic
        self._prefixes = None if deterministic else PrefixCache(prefix_cache_mb << 20)
        with torch.inference_mode():
            check_same_as_plain(self._slots)
        self._batches: list[Batch] = [] if deterministic else [self._make_batch()]
        self._current = 0
        self._adapters: dict[int, Adapter] = {0: {}}
        self._newest = 0
        self._highest = 0
        self._queue: deque[_Waiting | _Scoring] = deque()
        self._wake = threading.Condition()
        self._closed = False
        self._worker = threading.Thread(
            target=self._run, args=(threads,), name="castform-engine", daemon=True
        )
        self._worker.start()

    async def generate(
        self, prompt_ids: Sequence[int], sampling: Sampling, *, version: int | None = None
    ) -> Generation:
        """See the contract."""
        prompt = tuple(prompt_ids)
        room = self.max_context_tokens - len(prompt)
        if not prompt or room < 1:
            raise ValueError(
                f"a prompt of {len(prompt)} tokens leaves no room for a reply in {self.max_context_tokens}"
            )
        with self._wake:
            used, adapter = self._resolve(version)
            row = Row(
                prompt_ids=prompt,
                sampling=sampling,
                version=used,
                limit=min(sampling.max_new_tokens, room),
                end_ids=frozenset((*self.eos_token_ids, *sampling.stop_token_ids)),
            )
            self._queue.append(_Waiting(row=row, adapter=adapter))
            self._wake.notify()
        try:
            return await asyncio.wrap_future(row.future)
        except asyncio.CancelledError:
            raise GenerationCancelled(row.read("abort")) from None

    async def load_adapter(self, path: Path, version: int) -> None:
        """See the contract. Raises UsageError when the folder does not fit, ValueError for an old version."""
        adapter = await asyncio.to_thread(load_lora_folder, path)
        self._switch.check(adapter)
        with self._wake:
            self._check_open()
            if version <= self._highest:
                raise ValueError(f"version {version} is not larger than {self._highest}")
            self._adapters[version] = adapter
            self._newest = self._highest = version

    async def unload(self, version: int) -> None:
        """See the contract."""
        with self._wake:
            if version != 0 and self._adapters.pop(version, None) is not None:
                self._newest = max(self._adapters)

    async def logprobs(self, ids: Sequence[int], *, version: int | None = None) -> list[float]:
        """See the contract."""
        if not 2 <= len(ids) <= self.max_context_tokens:
            raise ValueError(f"{len(ids)} ids cannot be scored, 2 to {self.max_context_tokens} can")
        with self._wake:
            used, adapter = self._resolve(version)
            scoring = _Scoring(ids=tuple(ids), version=used, adapter=adapter)
            self._queue.append(scoring)
            self._wake.notify()
        return await asyncio.wrap_future(scoring.future)

    async def close(self) -> None:
        """See the contract."""
        with self._wake:
            self._closed = True
            self._wake.notify()
        await asyncio.to_thread(self._worker.join)

    def _resolve(self, version: int | None) -> tuple[int, Adapter]:
        self._check_open()
        used = self._newest if version is None else version
        return used, self._adapters[used]

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("the engine is closed")

    # From here on: the worker thread.

    def _run(self, threads: int | None) -> None:
        if threads is not None:
            torch.set_num_threads(threads)
        try:
            with torch.inference_mode():
                self._serve()
        except BaseException as error:
            # A dead worker must not leave its callers waiting.
            with self._wake:
                self._closed = True
            for item in self._queue:
                _settle(item.future.set_exception, error)
            for row in self._running():
                row.fail(error)
            raise
        self._abort_all()

    def _serve(self) -> None:
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._closed or self._queue or self._is_busy())
                if self._closed:
                    return
            self._advance()

    def _running(self) -> list[Row]:
        return [row for batch in self._batches for row in batch.rows]

    def _is_busy(self) -> bool:
        return any(batch.rows for batch in self._batches)

    def _advance(self) -> None:
        """Let rows out and in, then advance every batch by one token."""
        for batch in self._batches:
            batch.drop_cancelled()
        if self._deterministic:
            self._batches = [batch for batch in self._batches if batch.rows]
        admitted = self._take_admissible()
        for item in [item for item in admitted if isinstance(item, _Scoring)]:
            self._score(item)
        rows = [item.row for item in admitted if isinstance(item, _Waiting)]
        if self._deterministic:
            for row in rows:
                self._batches.append(self._make_batch())
                self._guard(self._batches[-1], [row])
        elif rows:
            self._guard(self._batches[0], rows)
        for batch in self._batches:
            if batch.rows:
                self._guard(batch, [])

    def _take_admissible(self) -> list[_Waiting | _Scoring]:
        """Take from the queue what may join now, switching adapters when the batch has drained."""
        with self._wake:
            self._queue = deque(item for item in self._queue if not item.future.cancelled())
            if not self._queue:
                return []
            head = self._queue[0]
            if head.version != self._current:
                if self._is_busy():
                    return []  # drain first; whoever came later waits behind the head
                wanted = [item for item in self._queue if item.version == head.version]
            else:
                wanted = []
                for item in self._queue:
                    if item.version != self._current:
                        break
                    wanted.append(item)
            taken = self._fit(wanted)
            chosen = {id(item) for item in taken}
            self._queue = deque(item for item in self._queue if id(item) not in chosen)
        if taken and taken[0].version != self._current:
            self._set_adapter(taken[0])
        return taken

    def _fit(self, wanted: Sequence[_Waiting | _Scoring]) -> list[_Waiting | _Scoring]:
        """Return the items, in order, for which there are slots and memory."""
        running = self._running()
        count, longest = len(running), max((row.most_tokens for row in running), default=0)
        taken: list[_Waiting | _Scoring] = []
        for item in wanted:
            if isinstance(item, _Waiting):
                longest = max(longest, item.row.most_tokens)
                too_big = (count + 1) * longest * self._slots.bytes_per_token > self._max_kv_bytes
                if count >= self._max_batch or (count and too_big):
                    break
                count += 1
            taken.append(item)
        return taken

    def _set_adapter(self, item: _Waiting | _Scoring) -> None:
        self._switch.set_adapter(item.adapter)
        if self._prefixes is not None:
            self._prefixes.clear()
        self._current = item.version

    def _guard(self, batch: Batch, joining: Sequence[Row]) -> None:
        """Let rows join, or advance the batch; when it fails, its rows fail with it and the engine goes on."""
        try:
            if joining:
                batch.admit(joining)
            else:
                batch.step()
        except Exception as error:  # noqa: BLE001 - whatever a model raises belongs to the callers
            for row in {id(row): row for row in (*batch.rows, *joining)}.values():
                row.fail(error)
            batch.reset()

    def _score(self, item: _Scoring) -> None:
        try:
            values = score_ids(self._slots, item.ids, self._prefixes)
        except Exception as error:  # noqa: BLE001 - whatever a model raises belongs to the caller
            _settle(item.future.set_exception, error)
        else:
            _settle(item.future.set_result, values)

    def _make_batch(self) -> Batch:
        return Batch(
            self._slots,
            prefixes=self._prefixes,
            decode=self._decode,
            prefill_tokens=self._prefill_tokens,
            stats=self.stats,
        )

    def _abort_all(self) -> None:
        for row in self._running():
            row.finish("abort")
        for item in self._queue:
            if isinstance(item, _Waiting):
                item.row.finish("abort")
            else:
                item.future.cancel()


def _settle(set_outcome: Callable[[Any], None], outcome: object) -> None:
    """Answer a future whose caller may have gone. `Any`: a result or an exception."""
    try:
        set_outcome(outcome)
    except InvalidStateError:
        return


def _make_decode(tokenizer: Any) -> Decode:
    def decode(ids: Sequence[int]) -> str:
        text: str = tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return text

    return decode


def _find_eos_token_ids(model: Any, tokenizer: Any) -> tuple[int, ...]:
    """The ids that the generation config names, then the tokenizer's own end of turn."""
    named = model.generation_config.eos_token_id if model.generation_config is not None else None
    ids = [*named] if isinstance(named, list | tuple) else [named]
    found = dict.fromkeys(int(i) for i in (*ids, tokenizer.eos_token_id) if i is not None)
    if not found:
        raise UsageError(
            "the model has no end-of-turn token, so its replies would never end",
            hint="set eos_token_id in the model's generation_config.json",
        )
    return tuple(found)


def make_transformers_engine(config: RunConfig, folder: ModelFolder) -> TransformersEngine:
    """Start the engine that a run's config asks for. Raises ConfigError for wrong options."""
    options = parse_options(config.engine.options)
    if config.engine.url is not None:
        raise ConfigError(
            "engine.url is set, but the transformers engine runs in this process",
            hint="set engine.name = 'vllm' to join a server, or leave engine.url out",
        )
    return TransformersEngine(
        folder,
        max_batch=config.engine.max_batch,
        threads=config.run.threads,
        deterministic=config.run.deterministic,
        **options.model_dump(),
    )
