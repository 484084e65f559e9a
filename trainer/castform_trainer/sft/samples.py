"""Read a file of rows and turn it into samples, with everything that is wrong with it in one error."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from benchmax.sft import SftDataset, SftDatasetError
from castform.errors import CastformError, UsageError
from castform.sft.held_out import MAX_EVAL_ROWS
from castform_trainer.sft.batch import Sample
from castform_trainer.sft.masking import MaskError, TurnTemplate, mask_row
from castform_trainer.sft.sampled_rows import SampledRows

MAX_LISTED = 100
"""Rows of one kind of fault that an error names; it counts the others."""

Report = Callable[[str, CastformError], None]
"""Takes the code of a fault and the error that tells of it; may raise it or go on."""


def raise_fault(code: str, error: CastformError) -> None:
    """Report a fault by raising it: the first one ends the work."""
    raise error


def load_dataset(path: Path) -> SftDataset:
    """Read a benchmax-sft-v1 file. Raises UsageError with its issues when it is not sound."""
    try:
        return SftDataset.from_jsonl(path)
    except SftDatasetError as error:
        raise UsageError(str(error), hint=f"`castform sft check {path}` shows every issue") from error
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from error


def make_samples(
    dataset: SftDataset,
    template: TurnTemplate,
    *,
    path: Path,
    limit: int,
    sampled: SampledRows | None = None,
    report: Report = raise_fault,
    unmasked: dict[int, MaskError] | None = None,
) -> list[Sample]:
    """Render, encode and mask every row but those whose token ids are among the `sampled` ones.

    Reports a UsageError for sampled ids that do not fit (`sampled_ids`), one that names every row
    that cannot be masked (`cannot_mask`), and one for the rows of more than `limit` tokens
    (`over_context`): nothing is cut and nothing is left out. When reporting does not raise, the
    samples of the other rows are returned; `unmasked` gets the rows that have none, and why.
    """
    samples: list[Sample] = []
    faults: dict[int, MaskError] = {} if unmasked is None else unmasked
    for number, (row, line) in enumerate(zip(dataset, dataset.iterate_jsonl_bytes(), strict=True)):
        try:
            recorded = None if sampled is None else sampled.find(number, line, row)
        except UsageError as error:
            report("sampled_ids", error)
            sampled = recorded = None
        if recorded is not None:
            samples += recorded
            continue
        try:
            masked = mask_row(template, row)
        except MaskError as error:
            faults[number] = error
            continue
        samples += [
            Sample(
                row=number,
                ids=each.ids,
                weights=tuple(1.0 if on else 0.0 for on in each.trained),  # two floats, not one a token
                last_message=each.places[-1],
            )
            for each in masked
        ]
    if faults:
        listed = [f"{_place(dataset, number)}: {error}" for number, error in faults.items()]
        report(
            "cannot_mask",
            UsageError(
                f"{path}: {len(faults)} of {len(dataset)} rows cannot be masked\n{_list(listed)}",
                hint="leave them out, or train a model whose chat template shows what they hold",
            ),
        )
    check_lengths(samples, dataset, path=path, limit=limit, report=report)
    return samples


def longest_samples(samples: Sequence[Sample]) -> dict[int, int]:
    """Return how many tokens the longest sample of each row has, by row number."""
    longest: dict[int, int] = {}
    for sample in samples:
        longest[sample.row] = max(longest.get(sample.row, 0), len(sample.ids))
    return longest


def check_lengths(
    samples: Sequence[Sample],
    dataset: SftDataset,
    *,
    path: Path,
    limit: int,
    report: Report = raise_fault,
) -> None:
    """Report a UsageError that lists every row of more than `limit` tokens."""
    longest = longest_samples(samples)
    long = [f"{_place(dataset, row)}: {size:,} tokens" for row, size in longest.items() if size > limit]
    if long:
        report(
            "over_context",
            UsageError(
                f"{path}: {len(long)} of {len(dataset)} rows have more than {limit:,} tokens\n{_list(long)}",
                hint="shorten or drop them, or raise data.max_context_tokens if the model reads more",
            ),
        )


def check_held_out(
    train: Sequence[Sample], held_out: Sequence[Sample], *, report: Report = raise_fault
) -> None:
    """Report a UsageError when a held-out row is a training row too."""
    known = {tuple(sample.ids): sample.row for sample in train}
    both = sorted({s.row: known[tuple(s.ids)] for s in held_out if tuple(s.ids) in known}.items())
    if both:
        report(
            "held_out_is_trained",
            UsageError(
                f"{len(both)} of the held-out rows are training rows too (row {both[0][0]} is row {both[0][1]} "
                "of the training data, for one), so a verdict would not be on held-out data",
                hint="take them out of one of the files; `castform sft check` finds near copies, too",
            ),
        )


def check_eval_size(dataset: SftDataset, path: Path, *, report: Report = raise_fault) -> None:
    """Report a UsageError for more held-out rows than are measured."""
    if len(dataset) > MAX_EVAL_ROWS:
        report(
            "eval_too_large",
            UsageError(
                f"{path} has {len(dataset):,} rows, but at most {MAX_EVAL_ROWS:,} are measured",
                hint=f"`head -n {MAX_EVAL_ROWS} {path}` is a smaller one",
            ),
        )


def _place(dataset: SftDataset, row: int) -> str:
    line = dataset.line_of(row)
    return f"row {row}" if line is None else f"line {line} (row {row})"


def _list(faults: Sequence[str]) -> str:
    more = len(faults) - MAX_LISTED
    lines = [f"  {fault}" for fault in faults[:MAX_LISTED]]
    return "\n".join([*lines, *([f"  and {more} more"] if more > 0 else [])])
