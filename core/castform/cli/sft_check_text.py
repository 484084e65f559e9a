"""The report of `castform sft check` for people."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from castform.cli.output import print_fields, print_marked, print_table, print_text
from castform.counted import counted
from castform.sft.checking.copies import NEAR, Copies, Copy
from castform.sft.checking.places import SHOWN_PLACES, IssueGroup
from castform.sft.checking.report import CheckReport, FileReport
from castform.sft.checking.tokens import Distribution, Preview, Span, TokenFigures

SHOWN_TOOLS = 30
_TOLD_AS_COPIES = "duplicate_row"
LONGEST_SPAN = 800
"""Characters of one span of a preview; what is between its beginning and its end is counted."""


def print_report(report: CheckReport) -> None:
    """Print what was found, the most important last: whether training would start."""
    _print_file(report, "train", report.train)
    if report.eval is not None:
        _print_file(report, "eval", report.eval)
    if report.model is not None and report.model.preview is not None:
        _print_preview(report.model.preview)
    for fault in report.faults:
        print_text(f"refused: {_from_here(fault.message)}")
        if fault.hint:
            print_text(f"  way out: {_from_here(fault.hint)}")
        print_text()
    for each in report.unchecked:
        print_text(f"not checked: {each.what}: {each.why}")
        print_text(f"  way out: {each.hint}")
        print_text()
    print_text(
        {
            True: "training would start",
            False: f"training would not start: {len(report.faults)} "
            f"reason{'s' if len(report.faults) > 1 else ''}, see above",
            None: "nothing is wrong so far, but whether training would start is not known",
        }[report.would_train]
    )


def _from_here(text: str) -> str:
    """Return a text in which paths below the current folder start there, as they were most likely given."""
    return text.replace(f"{Path.cwd()}{os.sep}", "")


def _print_file(report: CheckReport, split: str, file: FileReport) -> None:
    if file.dataset is None:
        if len(file.issues) == 1:
            return  # the fault below says all of it
        print_text(f"{file.path}: {counted(len(file.issues), 'issue')}")
        _print_groups(file.groups)
        print_text("  no figures: what rows hold is counted once all of them are sound")
        print_text()
        return
    print_text(f"{file.path}: {counted(len(file.dataset), 'row')}, all sound")
    copies = report.within if split == "train" else report.overlap
    figures = report.model.figures.get(split) if report.model is not None else None
    fields = {**_contents(file), **_copies(copies, split)}
    if report.model is not None and figures is not None:
        fields |= _tokens(figures, report.model.context_tokens)
    print_fields({f"  {name}": value for name, value in fields.items()})
    _print_tools(file)
    if copies is not None:
        _print_copies(copies, file, report.train)
    warnings = [group for group in file.warnings if split != "train" or group.code != _TOLD_AS_COPIES]
    if warnings:
        count = sum(group.count for group in warnings)
        print_text(f"  {count:,} warning{'s' if count != 1 else ''}")
        _print_groups(warnings)
    print_text()


def _print_groups(groups: Sequence[IssueGroup]) -> None:
    for group in groups:
        print_text(f"  {group.count:>7,}  {group.code}: {group.summary}")
        for issue in group.first[:SHOWN_PLACES]:
            print_text(f"           {issue.describe()}")
        more = group.count - SHOWN_PLACES
        if more > 0:
            print_text(f"           and {more:,} more")


def _contents(file: FileReport) -> dict[str, str]:
    contents = file.contents
    assert contents is not None
    roles = ", ".join(f"{count:,} {role}" for role, count in contents.roles.items() if count)
    return {
        "messages": roles,
        "weight 0": f"{contents.context_messages:,} of "
        f"{contents.context_messages + contents.trained_messages:,} assistant messages "
        f"({contents.weight_zero_share:.1%})",
        "tools": f"{len(contents.tools):,} defined in {contents.rows_with_tools:,} rows, "
        f"calls in {contents.rows_with_calls:,} rows, {len(contents.never_called):,} never called"
        if contents.tools
        else "none",
    }


def _copies(copies: Copies | None, split: str) -> dict[str, str]:
    if copies is None:
        return {} if split == "train" else {"in train": "not known: the training file has issues"}
    if split == "train":
        same = "1 row repeats" if len(copies.exact) == 1 else f"{len(copies.exact):,} rows repeat"
        return {"copies": f"{same} an earlier one, {len(copies.near):,} nearly"}
    same = (
        "1 row is a training row"
        if len(copies.exact) == 1
        else f"{len(copies.exact):,} rows are training rows"
    )
    return {"in train": f"{same}, {len(copies.near):,} nearly"}


def _tokens(figures: TokenFigures, context: int) -> dict[str, str]:
    share = figures.trained_share
    fields = {
        "tokens a row": _distribution(figures.tokens),
        "trained of them": _distribution(figures.trained),
        "tokens in all": f"{figures.total_tokens:,}, {figures.trained_tokens:,} of them trained"
        + ("" if share is None else f" ({share:.1%})"),
        "over the context": f"{len(figures.over_context):,} of {figures.rows:,} rows have more than {context:,} tokens",
    }
    if figures.samples > figures.rows:
        fields["samples"] = f"{figures.samples:,}: the chat template shows earlier turns otherwise"
    if figures.cannot_mask:
        fields["without a mask"] = f"{len(figures.cannot_mask):,} rows, in none of these figures"
    if figures.sampled_rows is not None:
        fields["sampled ids"] = f"{figures.sampled_rows:,} rows have their token ids from a run"
    return fields


def _distribution(found: Distribution | None) -> str:
    if found is None:
        return "no row could be measured"
    return f"min {found.min:,}  median {found.median:,}  p95 {found.p95:,}  max {found.max:,}"


def _print_tools(file: FileReport) -> None:
    contents = file.contents
    if contents is None or not contents.tools:
        return
    print_text()
    print_table(
        ["  TOOL", "ROWS DEFINING", "ROWS CALLING", "CALLS", "TRAINED"],
        [
            (
                f"  {tool.name}",
                f"{tool.defined_rows:,}",
                f"{tool.called_rows:,}",
                f"{tool.calls:,}" if tool.calls else "never called",
                f"{tool.trained_calls:,}",
            )
            for tool in contents.tools[:SHOWN_TOOLS]
        ],
    )
    more = len(contents.tools) - SHOWN_TOOLS
    if more > 0:
        print_text(f"  and {more:,} more (--json has all)")


def _print_copies(copies: Copies, file: FileReport, other: FileReport) -> None:
    whose = "" if file is other else f" of {other.path}"
    for what, tail, found in (("cop", "", copies.exact), ("near cop", f", from {NEAR:.0%}", copies.near)):
        if not found:
            continue
        print_text(f"  {len(found):,} {what}{'y' if len(found) == 1 else 'ies'}{tail}")
        for each in found[:SHOWN_PLACES]:
            print_text(
                f"           {_place(file, each.row)} {_likeness(each)} {_place(other, each.of)}{whose}"
            )
        if len(found) > SHOWN_PLACES:
            print_text(f"           and {len(found) - SHOWN_PLACES:,} more (--json has all)")


def _likeness(found: Copy) -> str:
    return "is the same as" if found.similarity == 1 else f"shares {found.similarity:.0%} with"


def _place(file: FileReport, row: int) -> str:
    line = file.dataset.line_of(row) if file.dataset is not None else None
    return f"row {row}" if line is None else f"line {line} (row {row})"


def _print_preview(preview: Preview) -> None:
    where = f"row {preview.row}" if preview.line is None else f"row {preview.row} (line {preview.line})"
    if not preview.samples:
        print_text(f"{where} cannot be shown: it has no mask")
        print_text()
        return
    for number, spans in enumerate(preview.samples):
        trained = sum(span.tokens for span in spans if span.trained)
        total = sum(span.tokens for span in spans)
        sample = f", sample {number + 1} of {len(preview.samples)}" if len(preview.samples) > 1 else ""
        print_text(f"{where}{sample}: {trained:,} of {total:,} tokens are trained, in [[brackets]] or colour")
        print_marked(list(_pieces(spans)))
        print_text()


def _pieces(spans: Sequence[Span]) -> Iterator[tuple[str, bool]]:
    for span in spans:
        text, left_out = span.text, len(span.text) - LONGEST_SPAN
        if left_out > 0:
            half = LONGEST_SPAN // 2
            text = f"{text[:half]} … {left_out:,} characters … {text[-half:]}"
        yield text, span.trained
