"""Datasets for supervised finetuning, format `benchmax-sft-v1`: read, checked, written canonically.

    from benchmax.sft import SftDataset, SftDatasetError

    train = SftDataset.from_jsonl("train.jsonl")   # or SftDataset.from_rows(rows)

docs/sft-data.md has the format, the codes of the issues and the warnings.
"""

from __future__ import annotations

from benchmax.sft.dataset import SftDataset, SftRows
from benchmax.sft.issues import CODES, SftDatasetError, SftIssue
from benchmax.sft.limits import (
    FORMAT,
    MAX_LEVELS,
    MAX_MESSAGES,
    MAX_METADATA_BYTES,
    MAX_ROW_BYTES,
    MAX_TOOLS,
)
from benchmax.sft.reading import RawRow, read_rows
from benchmax.sft.row_warnings import WARNING_CODES, SftWarning, warnings_of

__all__ = [
    "CODES",
    "FORMAT",
    "MAX_LEVELS",
    "MAX_MESSAGES",
    "MAX_METADATA_BYTES",
    "MAX_ROW_BYTES",
    "MAX_TOOLS",
    "WARNING_CODES",
    "RawRow",
    "SftDataset",
    "SftDatasetError",
    "SftIssue",
    "SftRows",
    "SftWarning",
    "read_rows",
    "warnings_of",
]
