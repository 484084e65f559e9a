"""Measure files of conversations with a model's own chat template, by the checks that a run starts with.

There is no second opinion: `castform_trainer.sft.preflight.examine` decides, as it does for a
run. Here its faults are collected instead of raised, and what it measured is put into figures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmax.sft import SftDataset
from castform.errors import CastformError
from castform.sft.checking.report import as_fault
from castform.sft.checking.tokens import (
    Distribution,
    Fault,
    ModelReport,
    RowFault,
    RowTokens,
    TokenFigures,
)
from castform.sft.config import SftConfig
from castform_trainer.sft.batch import Sample
from castform_trainer.sft.masking import MaskError
from castform_trainer.sft.preflight import examine
from castform_trainer.sft.preview import make_preview
from castform_trainer.sft.samples import longest_samples


def measure_files(
    config: SftConfig, datasets: Mapping[str, SftDataset], *, preview_row: int | None = None
) -> ModelReport:
    """Measure the sound files of a run, by split (`train`, `eval`), and show one training row.

    `faults` is empty exactly when a run of this config would get past its checks, provided that
    `datasets` holds every file of it. CastformError: model, adapter or a watcher cannot be opened.
    """
    faults: list[Fault] = []

    def report(code: str, error: CastformError) -> None:
        faults.append(as_fault(code, error))

    found = examine(config, report=report, datasets=datasets)
    figures = {
        split: measure_samples(
            samples,
            dataset,
            limit=found.context_tokens,
            sampled_rows=found.sampled_rows[split],
            unmasked=found.unmasked[split],
        )
        for split, (_, dataset, samples) in found.files.items()
    }
    preview = None
    if preview_row is not None and "train" in found.files:
        _, dataset, samples = found.files["train"]
        preview = make_preview(
            preview_row,
            dataset.line_of(preview_row),
            [sample for sample in samples if sample.row == preview_row],
            found.template,
        )
    return ModelReport(
        model=str(found.model.path),
        context_tokens=found.context_tokens,
        figures=figures,
        faults=tuple(faults),
        preview=preview,
    )


def measure_samples(
    samples: Sequence[Sample],
    dataset: SftDataset,
    *,
    limit: int,
    sampled_rows: int | None = None,
    unmasked: Mapping[int, MaskError] | None = None,
) -> TokenFigures:
    """Return the figures of a file's samples; `unmasked` are the rows that have none."""
    longest = longest_samples(samples)
    trained: dict[int, int] = {}
    for sample in samples:
        count = sum(weight > 0 for weight in sample.weights)
        trained[sample.row] = trained.get(sample.row, 0) + count
    return TokenFigures(
        rows=len(longest),
        samples=len(samples),
        tokens=Distribution.of(list(longest.values())),
        trained=Distribution.of(list(trained.values())),
        total_tokens=sum(len(sample.ids) for sample in samples),
        trained_tokens=sum(trained.values()),
        sampled_rows=sampled_rows,
        over_context=tuple(
            RowTokens(row=row, line=dataset.line_of(row), tokens=size)
            for row, size in longest.items()
            if size > limit
        ),
        cannot_mask=tuple(
            RowFault(row=row, line=dataset.line_of(row), message=str(error))
            for row, error in (unmasked or {}).items()
        ),
    )
