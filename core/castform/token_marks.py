"""What turned text into the token ids of a call log: the marks of a tokenizer and its chat template.

The gateway writes them beside each log, so that ids are only ever given to a model that reads them.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenMarks:
    """A model's name, and digests of what its token ids depend on."""

    model: str
    tokenizer_sha256: str
    template_sha256: str


def marks_path(log_path: Path) -> Path:
    """Return where the marks of a call log are kept."""
    return log_path.with_suffix(".tokenizer.json")


def write_marks(log_path: Path, marks: TokenMarks) -> None:
    """Write the marks of a call log. OSError when the disk refuses."""
    marks_path(log_path).write_text(json.dumps(asdict(marks), indent=1) + "\n", encoding="utf-8")


def read_marks(log_path: Path) -> TokenMarks | None:
    """Return the marks of a call log; None when there are none that can be read."""
    try:
        found = json.loads(marks_path(log_path).read_text(encoding="utf-8"))
        values = {name: found[name] for name in TokenMarks.__slots__}
    except (OSError, ValueError, TypeError, LookupError):
        return None
    return TokenMarks(**values) if all(isinstance(value, str) for value in values.values()) else None
