"""Issues and warnings, grouped by code: how many, where first, and the way out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmax.sft import CODES, MAX_ROW_BYTES, WARNING_CODES, SftDataset, SftIssue, warnings_of

SHOWN_PLACES = 3
MEND = "mend these places and check again; docs/sft-data.md says what each code asks for"
_UNPACKED = ("gzip", "bzip2", "xz")

_REREAD = {"bom", "row_not_object", "nonfinite_literal", "duplicate_key"}
_RESHAPED = {
    "arguments_not_string",
    "content_not_string",
    "messages_missing",
    "result_missing",
    "role_unknown",
    "tool_calls_empty",
    "unknown_key",
    "weight_invalid",
}
"""What `castform sft convert` is for: files saved otherwise, and rows of another shape."""


@dataclass(frozen=True, kw_only=True, slots=True)
class IssueGroup:
    """All issues, or all warnings, of one code."""

    code: str
    summary: str
    """What the code says, of any place."""
    count: int
    first: Sequence[SftIssue]
    """The first of them: every issue of an issue's code, at most 20 of a warning's."""

    def as_dict(self) -> dict[str, Any]:
        return {
            "code": self.code,
            "summary": self.summary,
            "count": self.count,
            "first": [issue.as_dict() for issue in self.first],
        }


def group_issues(issues: Sequence[SftIssue]) -> tuple[IssueGroup, ...]:
    """Return the issues by code, the most frequent code first, and in document order inside it."""
    found: dict[str, list[SftIssue]] = {}
    for issue in issues:
        found.setdefault(issue.code, []).append(issue)
    groups = [
        IssueGroup(code=code, summary=CODES.get(code, code), count=len(places), first=tuple(places))
        for code, places in found.items()
    ]
    return tuple(sorted(groups, key=lambda group: -group.count))  # a stable sort: else as they come


def group_warnings(dataset: SftDataset) -> tuple[IssueGroup, ...]:
    """Return the warnings of a dataset by code, in the order of WARNING_CODES."""
    return tuple(
        IssueGroup(
            code=warning.code,
            summary=WARNING_CODES[warning.code],
            count=warning.count,
            first=warning.examples,
        )
        for warning in warnings_of(dataset)
    )


def find_way_out(issues: Sequence[SftIssue], path: Path) -> str:
    """Return the one thing to do next about the issues of a file."""
    codes = {issue.code for issue in issues}
    convert = f"`castform sft convert {path}`"
    if len(issues) == 1:
        return _way_out_of_one(issues[0], convert)
    if codes & (_REREAD | _RESHAPED):
        return f"{convert} maps rows of other shapes, mends what can be mended, and tells of every row what it did"
    return MEND


def _way_out_of_one(issue: SftIssue, convert: str) -> str:
    """Return what to do about an only issue, which often is the file as a whole."""
    if any(f"is {kind}-compressed" in issue.message for kind in _UNPACKED):
        return f"unpack it, or let {convert} do that"
    if "castform sft convert" in issue.message:
        return f"{convert} reads the file as it is and writes one that is sound"
    if "cut off" in issue.message:
        return f"write or fetch the file again, or let {convert} keep the rows before the cut"
    if issue.code == "row_too_large":
        return f"split the row into several, or leave it out: a row has at most {MAX_ROW_BYTES:,} bytes"
    if issue.code == "empty_dataset":
        return "put at least one row into it"
    if issue.code in _REREAD | _RESHAPED:
        return f"mend it, or let {convert} try; it tells what it did"
    return MEND
