"""Checkpoints that are whole or not there: written beside, synced, then renamed into place.

checkpoints/step-000010/adapter/     plain PEFT folder (model/, a transformers folder, where all weights are trained)
                       /trainer.pt   weights as tensors, optimiser, RNG (torch, weights only)
                       /state.json   counters and cursors, and the size of every file
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch

from castform.errors import RunFailedError

FORMAT = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Checkpoint:
    """A complete checkpoint on disk."""

    step: int
    path: Path
    counters: Mapping[str, Any]
    """JSON values, as they were saved."""

    @property
    def adapter(self) -> Path:
        return self.path / "adapter"

    @property
    def model(self) -> Path:
        return self.path / "model"

    def load_tensors(self) -> dict[str, Any]:
        """Return what was saved as tensors. Nothing in the file can run code. RunFailedError for a damaged one."""
        file = self.path / "trainer.pt"
        try:
            loaded: dict[str, Any] = torch.load(file, map_location="cpu", weights_only=True)
        except (OSError, RuntimeError, ValueError, EOFError, UnpicklingError) as error:
            raise RunFailedError(
                f"{file} is damaged: {str(error).partition('. ')[0]}",
                hint=f"delete {self.path}: a resume goes on from the checkpoint before it, or from the start",
            ) from error
        return loaded


def save_checkpoint(
    folder: Path,
    *,
    step: int,
    counters: Mapping[str, Any],
    tensors: Mapping[str, Any],
    save_weights: Callable[[Path], None],
    keep: int,
    name: str = "adapter",
    resume: str = "castform train --resume",
) -> Checkpoint:
    """Write `folder`/step-N and drop the oldest beyond `keep`. Saving a step that is there is a no-op.

    `save_weights` fills the folder `name` of the checkpoint; `resume` is the command that goes on from one.

    Raises RunFailedError when the disk refuses; earlier checkpoints are then as they were.
    """
    path = folder / f"step-{step:06d}"
    known = _read(path)
    if known is not None:
        return known
    partial = folder / f".partial-{step:06d}"
    try:
        for leftover in (partial, path):
            shutil.rmtree(leftover, ignore_errors=True)
        partial.mkdir(parents=True)
        save_weights(partial / name)
        torch.save(dict(tensors), partial / "trainer.pt")
        files = {str(p.relative_to(partial)): p.stat().st_size for p in partial.rglob("*") if p.is_file()}
        state = {"format": FORMAT, "step": step, "counters": dict(counters), "files": files}
        (partial / "state.json").write_text(json.dumps(state, indent=1), encoding="utf-8")
        _sync_tree(partial)
        partial.rename(path)
        _sync(folder)
    except (OSError, RuntimeError) as error:  # torch's zip writer reports a full disk as RuntimeError
        shutil.rmtree(partial, ignore_errors=True)
        raise RunFailedError(
            f"cannot write the checkpoint {path}: {_explain(error, folder)}",
            hint=f"free some space, then `{resume}`; the checkpoint before it is whole",
        ) from error
    for old in list_checkpoints(folder)[:-keep]:
        shutil.rmtree(old.path, ignore_errors=True)
    return Checkpoint(step=step, path=path, counters=counters)


def _explain(error: Exception, folder: Path) -> str:
    """Return why a write failed; torch's own words for a full disk do not name it."""
    if isinstance(error, OSError):
        return error.strerror or str(error)
    free = shutil.disk_usage(folder).free if folder.is_dir() else None
    return f"{error} ({free / 1e6:.1f} MB are free)" if free is not None else str(error)


def list_checkpoints(folder: Path) -> list[Checkpoint]:
    """Return the complete checkpoints, oldest first; whatever is half-written is left out."""
    found = [_read(path) for path in sorted(folder.glob("step-*"))]
    return sorted((item for item in found if item is not None), key=lambda item: item.step)


def _read(path: Path) -> Checkpoint | None:
    try:
        state = json.loads((path / "state.json").read_text(encoding="utf-8"))
        if state["format"] != FORMAT:
            return None
        if any((path / name).stat().st_size != size for name, size in state["files"].items()):
            return None
        return Checkpoint(step=state["step"], path=path, counters=state["counters"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _sync_tree(folder: Path) -> None:
    for path in sorted(folder.rglob("*")):
        _sync(path)
    _sync(folder)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
