"""Everything that `castform sft check` finds, as one value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmax.sft import FORMAT, SftDataset, SftDatasetError, SftIssue
from castform.errors import CastformError, UsageError
from castform.sft.checking.contents import Contents, count_contents
from castform.sft.checking.copies import NEAR, Copies, Copy, find_copies
from castform.sft.checking.places import IssueGroup, find_way_out, group_issues, group_warnings
from castform.sft.checking.tokens import Fault, ModelReport
from castform.sft.held_out import MAX_EVAL_ROWS

SCHEMA = "castform-sft-check-1"
Measure = Callable[[Mapping[str, SftDataset]], ModelReport]
"""Takes the sound files by split, `train` and `eval`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FileReport:
    """One file of conversations."""

    path: Path
    dataset: SftDataset | None
    """None when there are issues."""
    issues: Sequence[SftIssue]
    """All of them, in document order."""
    warnings: Sequence[IssueGroup] = ()
    contents: Contents | None = None

    @property
    def groups(self) -> Sequence[IssueGroup]:
        return group_issues(self.issues)

    @property
    def way_out(self) -> str | None:
        return find_way_out(self.issues, self.path) if self.issues else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Unchecked:
    """Something that was not looked at, so that nobody takes silence for a yes."""

    what: str
    why: str
    hint: str


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckReport:
    """A training file, perhaps a held-out file, perhaps a model."""

    train: FileReport
    eval: FileReport | None
    within: Copies | None
    """Copies within the training file; None when it has issues."""
    overlap: Copies | None
    """Rows of the held-out file that the training file has; None without two sound files."""
    model: ModelReport | None
    faults: Sequence[Fault]
    """Every reason why training would not start."""
    unchecked: Sequence[Unchecked]

    @property
    def would_train(self) -> bool | None:
        """Whether `castform sft train` would start with these files and this model; None: not known."""
        if self.faults:
            return False
        return None if self.unchecked else True

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values; docs/sft-check.md has the keys."""
        found = self.model
        return {
            "schema": SCHEMA,
            "would_train": self.would_train,
            "faults": [asdict(fault) for fault in self.faults],
            "unchecked": [asdict(each) for each in self.unchecked],
            "train": self._file_as_dict("train", self.train),
            "eval": None if self.eval is None else self._file_as_dict("eval", self.eval),
            "copies": None if self.within is None else _copies_as_dict(self.within, self.train, self.train),
            "overlap": None
            if self.overlap is None or self.eval is None
            else _copies_as_dict(self.overlap, self.eval, self.train),
            "model": None if found is None else {"path": found.model, "context_tokens": found.context_tokens},
            "preview": None if found is None or found.preview is None else asdict(found.preview),
        }

    def _file_as_dict(self, split: str, file: FileReport) -> dict[str, Any]:
        figures = self.model.figures.get(split) if self.model is not None else None
        return {
            "path": str(file.path),
            "format": FORMAT if file.dataset is not None else None,
            "rows": None if file.dataset is None else len(file.dataset),
            "issue_count": len(file.issues),
            "issue_codes": {group.code: group.count for group in file.groups},
            "issues": [{"code": issue.code, **issue.as_dict()} for issue in file.issues],
            "way_out": file.way_out,
            "warnings": [group.as_dict() for group in file.warnings],
            "contents": None if file.contents is None else file.contents.as_dict(),
            "tokens": None if figures is None else figures.as_dict(),
        }


def read_file(path: Path) -> FileReport:
    """Read a file and collect its issues. UsageError when there is no file that could be read."""
    try:
        return FileReport(path=path, dataset=SftDataset.from_jsonl(path), issues=())
    except SftDatasetError as error:
        return FileReport(path=path, dataset=None, issues=error.issues)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from error


def make_report(
    train: FileReport,
    held_out: FileReport | None,
    *,
    measure: Measure | None,
    unchecked: Sequence[Unchecked] = (),
) -> CheckReport:
    """Look at files that were read. `measure` asks the trainer; without it `unchecked` says what is left open.

    CastformError: the model cannot be opened.
    """
    files = {"train": train, **({} if held_out is None else {"eval": held_out})}
    sound = {split: file.dataset for split, file in files.items() if file.dataset is not None}
    model = measure(sound) if measure is not None and sound else None  # first: it may not find the model
    copies = find_copies(sound["train"], sound.get("eval")) if "train" in sound else None
    looked_at = {split: _look_into(file) for split, file in files.items()}
    overlap = None if copies is None else copies.overlap
    faults = [_fault_of_issues(file) for file in files.values() if file.issues]
    faults += _faults_without_model(sound, overlap) if model is None else model.faults
    return CheckReport(
        train=looked_at["train"],
        eval=looked_at.get("eval"),
        within=None if copies is None else copies.within,
        overlap=overlap,
        model=model,
        faults=tuple(faults),
        unchecked=tuple(unchecked),
    )


def as_fault(code: str, error: CastformError) -> Fault:
    """Return what the checks before a run would raise as a reason not to train."""
    return Fault(code=code, message=str(error.args[0]), hint=error.hint)


def _look_into(file: FileReport) -> FileReport:
    if file.dataset is None:
        return file
    return FileReport(
        path=file.path,
        dataset=file.dataset,
        issues=(),
        warnings=group_warnings(file.dataset),
        contents=count_contents(file.dataset),
    )


def _fault_of_issues(file: FileReport) -> Fault:
    count = len(file.issues)
    if count == 1:
        text = f"{file.path}: {file.issues[0].describe()}"
    else:
        text = f"{file.path} has {count:,} issues"
    return Fault(code="issues", message=text, hint=file.way_out)


def _faults_without_model(sound: Mapping[str, SftDataset], overlap: Copies | None) -> list[Fault]:
    """Return the reasons not to train that hold with any model."""
    faults = []
    held_out = sound.get("eval")
    if held_out is not None and len(held_out) > MAX_EVAL_ROWS:
        faults.append(
            Fault(
                code="eval_too_large",
                message=f"the held-out file has {len(held_out):,} rows, but at most {MAX_EVAL_ROWS:,} are measured",
                hint=f"`head -n {MAX_EVAL_ROWS}` makes a smaller one",
            )
        )
    if overlap is not None and overlap.exact:
        first = overlap.exact[0]
        faults.append(
            Fault(
                code="held_out_is_trained",
                message=f"{len(overlap.exact):,} of the held-out rows are training rows too "
                f"(row {first.row} is row {first.of} of the training data, for one)",
                hint="take them out of one of the files",
            )
        )
    return faults


def _copies_as_dict(copies: Copies, file: FileReport, other: FileReport) -> dict[str, Any]:
    assert file.dataset is not None and other.dataset is not None
    rows = len(file.dataset)

    def listed(found: Sequence[Copy]) -> list[dict[str, Any]]:
        return [
            {
                "row": each.row,
                "line": file.dataset.line_of(each.row) if file.dataset else None,
                "of_row": each.of,
                "of_line": other.dataset.line_of(each.of) if other.dataset else None,
                "similarity": each.similarity,
            }
            for each in found
        ]

    return {
        "rows": rows,
        "exact_count": len(copies.exact),
        "exact": listed(copies.exact),
        "near_threshold": NEAR,
        "near_count": len(copies.near),
        "near": listed(copies.near),
    }
