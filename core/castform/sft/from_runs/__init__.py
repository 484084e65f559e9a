"""Rows for finetuning from the rollouts of our own runs, with the token ids that were sampled."""

from __future__ import annotations

from castform.sft.from_runs.choice import Choice
from castform.sft.from_runs.convert import Converted, convert_runs, default_split
from castform.sft.from_runs.report import Report, RolloutOutcome
from castform.sft.from_runs.write import check_paths, write_report, write_rows

__all__ = [
    "Choice",
    "Converted",
    "Report",
    "RolloutOutcome",
    "check_paths",
    "convert_runs",
    "default_split",
    "write_report",
    "write_rows",
]
