"""Find an environment's data files without leaving its folder."""

from __future__ import annotations

import os
from pathlib import Path

from benchmax.envs.dataset import JsonlDataset
from benchmax.envs.shared_types import JsonRow

__all__ = ["JsonRow", "JsonlDataset", "resolve_dataset_path"]


def resolve_dataset_path(base_dir: str | os.PathLike[str], relative_path: str | os.PathLike[str]) -> Path:
    """Return the resolved path of a data file under `base_dir`.

    ValueError: the path is absolute, or leads out of `base_dir`, symbolic links included.
    """
    relative = Path(relative_path)
    if relative.is_absolute():
        raise ValueError(f"dataset path must be relative to base_dir, not {str(relative)!r}")
    root = Path(base_dir).resolve()
    resolved = (root / relative).resolve()
    if not resolved.is_relative_to(root):
        raise ValueError(f"dataset path {str(relative)!r} must stay within base_dir")
    return resolved
