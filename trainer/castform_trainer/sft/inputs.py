"""What a run was started with, in marks: a resumed run goes on with the same inputs or not at all."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

from benchmax.sft import SftDataset
from castform_trainer.models import ModelFolder
from castform_trainer.sft.batch import Sample

Inputs = Mapping[str, Any]
_TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json", "merges.txt", "spiece.model")


def describe_inputs(
    *,
    files: Mapping[str, tuple[Path, SftDataset, Sequence[Sample]]],
    template: str,
    rendered_at: datetime | None,
    model: ModelFolder,
    adapter: Path | None,
    sampled_rows: Mapping[str, int | None] = MappingProxyType({}),
) -> dict[str, Any]:
    """Return JSON values: digests of data, template and tokenizer, the sizes of the weights.

    `files` has the train and perhaps the eval file with its samples, the token ids and masks that
    were made of it; `sampled_rows` how many rows of each were not rendered but have ids that were
    sampled; `rendered_at` the moment for which the others were, where the template writes the date.
    """
    return {
        "files": {
            split: {
                "path": str(path),
                "rows": len(dataset),
                "sampled_rows": sampled_rows.get(split) or 0,
                "sha256": digest_dataset(dataset),
                "samples_sha256": digest_samples(samples),
            }
            for split, (path, dataset, samples) in files.items()
        },
        "template_sha256": _digest([template.encode()]),
        "rendered_at": None if rendered_at is None else rendered_at.isoformat(),
        "tokenizer_sha256": _digest(_read(model.path / name) for name in _TOKENIZER_FILES),
        "model": str(model.path),
        "weights": {path.name: path.stat().st_size for path in sorted(model.path.glob("*.safetensors"))},
        "dtype": model.dtype,
        "adapter_sha256": None
        if adapter is None
        else _digest([_read(adapter / "adapter_model.safetensors")]),
    }


def read_moment(inputs: Inputs) -> datetime | None:
    """Return the moment that the rows were rendered for; None when the template writes no date."""
    found = inputs.get("rendered_at")
    return None if found is None else datetime.fromisoformat(found)


def digest_dataset(dataset: SftDataset) -> str:
    """Return the sha256 of the canonical bytes: the same for files that differ in spelling alone."""
    return _digest(dataset.iterate_jsonl_bytes())


def digest_samples(samples: Sequence[Sample]) -> str:
    """Return the sha256 of token ids and weights."""
    return _digest(f"{s.row} {tuple(s.ids)} {tuple(s.weights)}\n".encode() for s in samples)


def describe_input_changes(before: Inputs, now: Inputs) -> list[str]:
    """Return one line for each input that is not what it was; empty when the run can go on."""
    changes = []
    for split in {**before["files"], **now["files"]}:
        old, new = before["files"].get(split), now["files"].get(split)
        if old is None or new is None:
            changes.append(f"{split} data: {'not there before' if old is None else 'not there any more'}")
        elif old["sha256"] != new["sha256"]:
            rows = (
                f"{old['rows']} rows before, {new['rows']} now"
                if old["rows"] != new["rows"]
                else f"{new['rows']} rows as before, but with another content"
            )
            changes.append(f"{split} data {new['path']}: {rows}")
        elif old.get("sampled_rows", 0) != new["sampled_rows"]:
            changes.append(
                f"{split} data {new['path']}: {old.get('sampled_rows', 0)} rows with sampled token ids before, "
                f"{new['sampled_rows']} now"
            )
    for key, what in (
        ("template_sha256", "the chat template"),
        ("tokenizer_sha256", "the tokenizer"),
        ("weights", "the weights"),
        ("adapter_sha256", "the adapter that it started from"),
        ("dtype", "the number format"),
    ):
        if before[key] != now[key]:
            values = f": {before[key]} before, {now[key]} now" if key == "dtype" else ""
            changes.append(f"{what} of {now['model']}{values}" if not values else f"{what}{values}")
    if not changes and before["files"] != now["files"]:
        same = all(
            before["files"][s]["samples_sha256"] == now["files"][s]["samples_sha256"] for s in now["files"]
        )
        if not same:
            changes.append("the masks: this castform makes other token ids or masks of the same rows")
    return changes


def _digest(parts: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


def _read(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() else b""
