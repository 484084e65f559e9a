"""Read a file of rows and turn it into samples, with everything that is wrong with it in one error."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmax.sft import SftDataset, SftDatasetError
from castform.errors import UsageError
from castform_trainer.sft.batch import Sample
from castform_trainer.sft.masking import MaskError, TurnTemplate, mask_row
from castform_trainer.sft.sampled_rows import SampledRows

MAX_EVAL_ROWS = 2048
MAX_LISTED = 100
"""Rows of one kind of fault that an error names; it counts the others."""


def load_dataset(path: Path) -> SftDataset:
    """Read a benchmax-sft-v1 file. Raises UsageError with its issues when it is not sound."""
    try:
        return SftDataset.from_jsonl(path)
    except SftDatasetError as error:
        raise UsageError(f"{path}: {error}", hint=f"`castform sft check {path}` shows every issue") from error
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from error


def make_samples(
    dataset: SftDataset,
    template: TurnTemplate,
    *,
    path: Path,
    limit: int,
    sampled: SampledRows | None = None,
) -> list[Sample]:
    """Render, encode and mask every row but those whose token ids are among the `sampled` ones.

    Raises UsageError that names every row that cannot be masked, or else every row of more than
    `limit` tokens: nothing is cut and nothing is left out.
    """
    samples: list[Sample] = []
    faults: list[str] = []
    for number, (row, line) in enumerate(zip(dataset, dataset.iterate_jsonl_bytes(), strict=True)):
        recorded = None if sampled is None else sampled.find(number, line, row)
        if recorded is not None:
            samples += recorded
            continue
        try:
            masked = mask_row(template, row)
        except MaskError as error:
            faults.append(f"{_place(dataset, number)}: {error}")
            continue
        samples += [
            Sample(row=number, ids=each.ids, weights=tuple(map(float, each.trained))) for each in masked
        ]
    if faults:
        raise UsageError(
            f"{path}: {len(faults)} of {len(dataset)} rows cannot be masked\n{_list(faults)}",
            hint=f"`castform sft check {path} -m MODEL` shows them in their context",
        )
    check_lengths(samples, dataset, path=path, limit=limit)
    return samples


def check_lengths(samples: Sequence[Sample], dataset: SftDataset, *, path: Path, limit: int) -> None:
    """Raise UsageError that lists every row of more than `limit` tokens."""
    longest: dict[int, int] = {}
    for sample in samples:
        longest[sample.row] = max(longest.get(sample.row, 0), len(sample.ids))
    long = [f"{_place(dataset, row)}: {size:,} tokens" for row, size in longest.items() if size > limit]
    if long:
        raise UsageError(
            f"{path}: {len(long)} of {len(dataset)} rows have more than {limit:,} tokens\n{_list(long)}",
            hint="shorten or drop them, or raise data.max_context_tokens if the model reads more",
        )


def check_held_out(train: Sequence[Sample], held_out: Sequence[Sample]) -> None:
    """Raise UsageError when a held-out row is a training row too."""
    known = {tuple(sample.ids): sample.row for sample in train}
    both = sorted({s.row: known[tuple(s.ids)] for s in held_out if tuple(s.ids) in known}.items())
    if both:
        raise UsageError(
            f"{len(both)} of the held-out rows are training rows too (row {both[0][0]} is row {both[0][1]} "
            "of the training data, for one), so a verdict would not be on held-out data",
            hint="take them out of one of the files; `castform sft check` finds near copies, too",
        )


def check_eval_size(dataset: SftDataset, path: Path) -> None:
    """Raise UsageError for more held-out rows than are measured."""
    if len(dataset) > MAX_EVAL_ROWS:
        raise UsageError(
            f"{path} has {len(dataset):,} rows, but at most {MAX_EVAL_ROWS:,} are measured",
            hint=f"`head -n {MAX_EVAL_ROWS} {path}` is a smaller one",
        )


def _place(dataset: SftDataset, row: int) -> str:
    line = dataset.line_of(row)
    return f"row {row}" if line is None else f"line {line} (row {row})"


def _list(faults: Sequence[str]) -> str:
    more = len(faults) - MAX_LISTED
    lines = [f"  {fault}" for fault in faults[:MAX_LISTED]]
    return "\n".join([*lines, *([f"  and {more} more"] if more > 0 else [])])
