"""Rows whose token ids were sampled in a run of ours: trained on as they were, never rendered again.

FILE.tokens.jsonl beside a file of rows has the ids (castform.sft.from_runs.tokens). They are used
for this model's own tokenizer and chat template alone, and only where they read back as the row
that they belong to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from castform.errors import UsageError
from castform.sft.from_runs.messages import row_message
from castform.sft.from_runs.tokens import (
    TokenRow,
    TokenSample,
    TokenTurn,
    read_token_rows,
    row_digest,
    tokens_path,
)
from castform.token_marks import TokenMarks
from castform_trainer.engines.contract import Generation
from castform_trainer.sft.batch import Sample
from castform_trainer.sft.turn_reading import TurnReader, are_same_calls, list_calls
from castform_trainer.sft.turn_template import TurnTemplate

HINT = (
    "train the model that the run sampled from, or train on the rows' text with "
    "--set data.use_sampled_ids=false"
)


class SampledRows:
    """The sampled ids of a file of rows, by row."""

    def __init__(self, path: Path, template: TurnTemplate) -> None:
        """Read what is beside `path`; without such a file there are none. UsageError: it is damaged."""
        self.path = tokens_path(path)
        self._template = template
        self._rows: dict[str, TokenRow] = {}
        self._known: set[TokenMarks] = set()
        self.used = 0
        """Rows that were found."""
        if self.path.exists():
            self._rows = {row.row_sha256: row for row in read_token_rows(self.path)}
        self._reader = TurnReader(template)

    def __len__(self) -> int:
        return len(self._rows)

    def find(self, number: int, line: bytes, row: Mapping[str, Any]) -> list[Sample] | None:
        r"""Return the samples of a row, None when it has no sampled ids; `line` are its canonical bytes.

        Raises UsageError when the ids are those of another tokenizer or chat template, or do not
        read back as the row.
        """
        found = self._rows.get(row_digest(line)) if self._rows else None
        if found is None:
            return None
        if found.marks is not None and found.marks not in self._known:
            self._check_marks(found.marks)
            self._known.add(found.marks)
        self._check_complete(number, row, found)
        for sample in found.samples:
            start = 0
            for turn in sample.turns:
                self._check_turn(number, row, sample, turn, start)
                start = turn.end
        self.used += 1
        return [_make_sample(number, sample) for sample in found.samples]

    def _check_marks(self, marks: TokenMarks) -> None:
        own = self._template.marks
        parts = (
            ("tokenizer", marks.tokenizer_sha256, own.tokenizer_sha256),
            ("chat template", marks.template_sha256, own.template_sha256),
        )
        other = [what for what, theirs, mine in parts if theirs != mine]
        if other:
            raise UsageError(
                f"the token ids in {self.path} were sampled from {marks.model}, and "
                f"{self._template.name} has another {' and another '.join(other)}",
                hint=HINT,
            )

    def _check_complete(self, number: int, row: Mapping[str, Any], found: TokenRow) -> None:
        """Raise UsageError unless the samples have each message of weight 1 once and nothing else."""
        wanted = [
            place
            for place, message in enumerate(row["messages"])
            if message["role"] == "assistant" and message.get("weight", 1)
        ]
        if sorted(turn.message for sample in found.samples for turn in sample.turns) != wanted:
            raise UsageError(
                f"{self.path} does not have every trained message of row {number} once", hint=HINT
            )

    def _check_turn(
        self, number: int, row: Mapping[str, Any], sample: TokenSample, turn: TokenTurn, start: int
    ) -> None:
        """Raise UsageError unless the reply's ids read as the row's message."""
        generation = Generation(
            ids=sample.ids[turn.start : turn.end], logprobs=(), finish_reason="stop", version=0
        )
        read = self._reader.read(
            generation, prompt_ids=sample.ids[start : turn.start], tools=row.get("tools") or ()
        )
        if not _is_same(read, row["messages"][turn.message]):
            raise UsageError(
                f"the token ids in {self.path} do not read as messages[{turn.message}] of row {number} "
                f"with the tokenizer of {self._template.name}",
                hint=HINT,
            )


def _make_sample(number: int, sample: TokenSample) -> Sample:
    weights = [0.0] * len(sample.ids)
    for turn in sample.turns:
        weights[turn.start : turn.end] = [1.0] * (turn.end - turn.start)
    return Sample(
        row=number,
        ids=sample.ids,
        weights=tuple(weights),
        last_message=max(turn.message for turn in sample.turns),
    )


def _is_same(read: Mapping[str, Any], message: Mapping[str, Any]) -> bool:
    """Tell whether a reply reads as the message. One that a stop text cut goes on behind it."""
    content, whole = (str(row_message(each, Counter())["content"] or "") for each in (message, read))
    return are_same_calls(list_calls(read), list_calls(message)) and whole.startswith(content)
