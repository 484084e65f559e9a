"""Let the model that is trained answer questions greedily, many at a time, as it is at that moment.

The transformers engine's batches do it on the learner's own weights, so nothing is copied or saved
on the way. A model that they cannot batch (a recurrence, a convolution over tokens) reads its whole
text anew for every token instead, which any kind of layer follows. No random state is touched.
Letters: B rows, T tokens, V vocabulary.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import torch

from castform.calls import Sampling
from castform.errors import UsageError
from castform_trainer.engines.contract import Generation
from castform_trainer.engines.transformers_batch import Batch, BatchStats, Row
from castform_trainer.engines.transformers_forward import SlotModel, check_same_as_plain
from castform_trainer.engines.transformers_prefix import PrefixCache
from castform_trainer.sft.batch import PADDING
from castform_trainer.sft.learner import SftLearner
from castform_trainer.sft.questions import AnswerReader, Question

MAX_BATCH = 64
KV_BYTES = 2 << 30
"""Keys and values of the replies in flight; more wait. One reply always runs."""
PREFIX_BYTES = 128 << 20
PREFILL_TOKENS = 2048
"""Prompt tokens that join at once; a stop waits for these at most."""


def generate_replies(
    learner: SftLearner,
    questions: Sequence[Question],
    reader: AnswerReader,
    *,
    is_stopped: Callable[[], bool] = lambda: False,
    max_batch: int = MAX_BATCH,
) -> list[Generation] | None:
    """Return a greedy reply to each question, in their order; None when stopped on the way."""
    rows = [
        Row(
            prompt_ids=question.prompt_ids,
            sampling=Sampling(temperature=0.0, stop=reader.stop),
            version=0,
            limit=question.max_new_tokens,
            end_ids=frozenset(reader.end_ids),
        )
        for question in questions
    ]
    with torch.no_grad(), learner.in_compute_format():
        slots = open_slots(learner)
        if slots is None:
            is_whole = _answer_by_reading(learner, rows, reader, is_stopped)
        else:
            is_whole = _answer_in_batches(slots, rows, reader, is_stopped, max_batch)
    return [row.future.result() for row in rows] if is_whole else None


def open_slots(learner: SftLearner) -> SlotModel | None:
    """Return the learner's model as the engine batches it; None for one that it cannot batch."""
    model: Any = learner.model if learner.is_full else learner.model.get_base_model()
    try:
        slots = SlotModel(model)
        check_same_as_plain(slots)
    except UsageError:
        return None
    return slots


def _answer_in_batches(
    slots: SlotModel,
    rows: Sequence[Row],
    reader: AnswerReader,
    is_stopped: Callable[[], bool],
    max_batch: int,
) -> bool:
    batch = Batch(
        slots,
        prefixes=PrefixCache(PREFIX_BYTES),
        decode=reader.decode,
        prefill_tokens=PREFILL_TOKENS,
        stats=BatchStats(),
    )
    waiting = deque(sorted(rows, key=lambda row: len(row.prompt_ids)))  # neighbours share a pass
    while waiting or batch.rows:
        if is_stopped():
            return False
        joining = _take_joining(waiting, batch.rows, slots.bytes_per_token, max_batch)
        if joining:
            batch.admit(joining)
        else:
            batch.step()
    return True


def _take_joining(
    waiting: deque[Row], running: Sequence[Row], bytes_per_token: int, max_batch: int
) -> list[Row]:
    """Take from the queue what there is room for, of prompts that go through one pass."""
    joining: list[Row] = []
    longest = max((row.most_tokens for row in running), default=0)
    while waiting and len(running) + len(joining) < max_batch:
        longest = max(longest, waiting[0].most_tokens)
        count = len(running) + len(joining)
        if count and (count + 1) * longest * bytes_per_token > KV_BYTES:
            break
        if joining and (len(joining) + 1) * len(waiting[0].prompt_ids) > PREFILL_TOKENS:
            break
        joining.append(waiting.popleft())
    return joining


def _answer_by_reading(
    learner: SftLearner, rows: Sequence[Row], reader: AnswerReader, is_stopped: Callable[[], bool]
) -> bool:
    """Draw each next token behind all that stands before it, rows of about one length together."""
    waiting = deque(sorted(rows, key=lambda row: len(row.prompt_ids)))
    while waiting:
        chunk = [waiting.popleft()]
        while waiting and (len(chunk) + 1) * waiting[0].most_tokens <= PREFILL_TOKENS:
            chunk.append(waiting.popleft())
        while chunk:
            if is_stopped():
                return False
            for row, token in zip(chunk, _next_tokens(learner, chunk), strict=True):
                row.ids.append(token)
            ended = [row for row in chunk if _end(row, reader)]
            chunk = [row for row in chunk if not any(row is other for other in ended)]
    return True


def _next_tokens(learner: SftLearner, rows: Sequence[Row]) -> list[int]:
    texts = [[*row.prompt_ids, *row.ids] for row in rows]
    width = max(map(len, texts))
    ids_BT = torch.tensor([[*text, *[PADDING] * (width - len(text))] for text in texts])
    lasts_B = torch.tensor([place * width + len(text) - 1 for place, text in enumerate(texts)])
    logits_BV = learner.rectangle_logits(ids_BT.to(learner.device), lasts_B.to(learner.device))
    tokens: list[int] = logits_BV.float().argmax(-1).tolist()
    return tokens


def _end(row: Row, reader: AnswerReader) -> bool:
    """Finish a row whose reply is at its end; tell whether it was."""
    ended = row.ids[-1] in row.end_ids or any(stop in reader.decode(row.ids) for stop in reader.stop)
    if not ended and len(row.ids) < row.limit:
        return False
    row.logprobs = [0.0] * len(row.ids)
    row.finish("stop" if ended else "length")
    return True
