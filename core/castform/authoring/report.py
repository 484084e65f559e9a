"""What came of checking a plugin: one row a check."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

Status = Literal["pass", "fail", "unchecked"]


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckRow:
    """One thing that was looked at."""

    check: str
    status: Status
    """unchecked: it could not be looked at, and `found` says why."""
    found: str
    """In one line."""
    hint: str | None = None
    """What to do about it."""
    details: tuple[str, ...] = ()
    """Further lines: the end of a build's output, broken rules."""
    missing: bool = False
    """Unchecked because something that an environment needs is not on this machine."""

    def as_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "check": self.check,
            "status": self.status,
            "found": self.found,
            "hint": self.hint,
            "details": list(self.details),
            "missing": self.missing,
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckReport:
    """All rows, in the order in which they were looked at."""

    distribution: str
    rows: Sequence[CheckRow]
    seconds: float
    venv: str | None = None
    """The virtual environment, where it was kept."""

    @property
    def passed(self) -> bool:
        """Whether nothing failed. What was not checked is no failure, and no success either."""
        return not any(row.status == "fail" for row in self.rows)

    @property
    def missing(self) -> bool:
        """Whether an environment could not be looked at for something that is not on this machine."""
        return any(row.missing for row in self.rows)

    def count(self, status: Status) -> int:
        """Return how many rows have a status."""
        return sum(row.status == status for row in self.rows)

    def as_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "distribution": self.distribution,
            "ok": self.passed,
            "seconds": round(self.seconds, 2),
            "venv": self.venv,
            "checks": [row.as_dict() for row in self.rows],
        }


def passes(check: str, found: str, *, details: Sequence[str] = ()) -> CheckRow:
    """Return the row of something that is as it should be."""
    return CheckRow(check=check, status="pass", found=found, details=tuple(details))


def fails(check: str, found: str, *, hint: str | None = None, details: Sequence[str] = ()) -> CheckRow:
    """Return the row of something that has to be mended, and how."""
    return CheckRow(check=check, status="fail", found=found, hint=hint, details=tuple(details))


def unchecked(check: str, why: str, *, hint: str | None = None, missing: bool = False) -> CheckRow:
    """Return the row of something that could not be looked at, and why."""
    return CheckRow(check=check, status="unchecked", found=why, hint=hint, missing=missing)
