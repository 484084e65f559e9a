"""Put datasets where a run finds them, under a name that says what is in them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from castform.platform.storage import AssetStorage, LocalStorage

if TYPE_CHECKING:
    from benchmax.sft import SftDataset

PREFIX_CHARS = 16
MAX_NAME_CHARS = 200
TRAIN_FILE, EVAL_FILE = "train.jsonl", "eval.jsonl"

_SEGMENT = re.compile(r"[A-Za-z0-9._-]+")
_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True, slots=True)
class UploadedSftAssets:
    """Datasets that are where a run finds them."""

    dataset_path: str
    """datasets/<run name>/<16 hex digits>/train.jsonl, held-out rows in eval.jsonl beside it."""
    dataset_format: str
    """benchmax-sft-v1."""
    content_digest: str
    """SHA-256 of the canonical bytes of the training rows, in hex."""
    row_count: int
    eval_digest: str | None = None
    eval_row_count: int | None = None


def upload_sft_assets(
    *,
    dataset: SftDataset,
    run_name: str,
    eval_dataset: SftDataset | None = None,
    storage: AssetStorage | None = None,
) -> UploadedSftAssets:
    """Store a dataset, and held-out rows with it, and return where they are.

    The path follows from the content, so the same rows are stored once however often they are
    uploaded, and other held-out rows make another path. `storage` is by default the folder
    `storage` of CASTFORM_HOME. TypeError for what is no SftDataset; ValueError for a name that is
    no part of a path or more than 2048 held-out rows: nothing is stored then. TrainerError when
    the disk refuses.
    """
    from benchmax.sft import FORMAT
    from castform.sft.held_out import MAX_EVAL_ROWS

    _check_dataset("dataset", dataset)
    check_run_name(run_name)
    if eval_dataset is not None:
        _check_dataset("eval_dataset", eval_dataset)
        if len(eval_dataset) > MAX_EVAL_ROWS:
            raise ValueError(
                f"eval_dataset has {len(eval_dataset):,} rows, but at most {MAX_EVAL_ROWS:,} are measured"
            )
    digest = _digest(dataset)
    eval_digest = None if eval_dataset is None else _digest(eval_dataset)
    folder = f"datasets/{run_name}/{sft_assets_digest(digest, eval_digest)[:PREFIX_CHARS]}"
    storage = storage or LocalStorage()
    if eval_dataset is not None and eval_digest is not None:  # first: whoever sees the rows sees these too
        storage.put(f"{folder}/{EVAL_FILE}", eval_dataset.iterate_jsonl_bytes, digest=eval_digest)
    storage.put(f"{folder}/{TRAIN_FILE}", dataset.iterate_jsonl_bytes, digest=digest)
    return UploadedSftAssets(
        dataset_path=f"{folder}/{TRAIN_FILE}",
        dataset_format=FORMAT,
        content_digest=digest,
        row_count=len(dataset),
        eval_digest=eval_digest,
        eval_row_count=None if eval_dataset is None else len(eval_dataset),
    )


def sft_assets_digest(train_digest: str, eval_digest: str | None = None) -> str:
    """Return the digest of training rows and held-out rows together, of their SHA-256 digests in hex.

    Without held-out rows it is that of the training rows. ValueError for what is no such digest.
    """
    for digest in (train_digest, *([] if eval_digest is None else [eval_digest])):
        if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
            raise ValueError(f"{digest!r} is not a SHA-256 digest: 64 hex digits in lower case")
    if eval_digest is None:
        return train_digest
    parts = (
        b"castform-sft-assets-v1\0",
        b"train\0" + bytes.fromhex(train_digest),
        b"eval\0" + bytes.fromhex(eval_digest),
    )
    return hashlib.sha256(b"".join(parts)).hexdigest()


def check_run_name(name: object) -> None:
    """Raise ValueError unless a name can be one part of a path everywhere."""
    if (
        not isinstance(name, str)
        or not _SEGMENT.fullmatch(name)
        or name in (".", "..")
        or len(name) > MAX_NAME_CHARS
    ):
        raise ValueError(
            f"run_name must be letters, digits, '.', '_' and '-', at most {MAX_NAME_CHARS} of them, "
            f"and not '.' or '..'; it is {str(name)[:MAX_NAME_CHARS]!r}"
        )


def _check_dataset(name: str, value: object) -> None:
    from benchmax.sft import SftDataset

    if not isinstance(value, SftDataset):
        raise TypeError(
            f"{name} must be an SftDataset (SftDataset.from_jsonl or .from_rows), not {type(value).__name__}"
        )


def _digest(dataset: SftDataset) -> str:
    return hash_lines(dataset.iterate_jsonl_bytes)


def hash_lines(lines: Callable[[], Iterator[bytes]]) -> str:
    found = hashlib.sha256()
    for line in lines():
        found.update(line)
    return found.hexdigest()
