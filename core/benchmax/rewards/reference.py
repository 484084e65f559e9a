"""The right answer as a judge gets to see it."""

from __future__ import annotations


def reference_text(ground_truth: object) -> str | None:
    """Return a ground truth as text; None when there is none, or only white space."""
    text = "" if ground_truth is None else str(ground_truth)
    return text if text.strip() else None
