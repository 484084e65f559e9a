"""What is cheap to find wrong with the data of a launch, found before there is a run."""

from __future__ import annotations

import hashlib
from collections.abc import Set as AbstractSet
from pathlib import Path

from castform.platform.errors import JobLaunchError
from castform.platform.request import SftLaunch

BAD_REQUEST, NOT_FOUND = 400, 404
_UPLOAD = "upload it again with upload_sft_assets"


def check_data(launch: SftLaunch, *, train: Path, held_out: Path | None) -> None:
    """Raise JobLaunchError unless the files are there as they were uploaded, and share no row."""
    dataset, evaluation = launch["dataset"], launch.get("eval")
    from benchmax.sft import FORMAT

    if dataset["format"] != FORMAT:
        raise JobLaunchError(f"the dataset has the format {dataset['format']!r}, not {FORMAT}", BAD_REQUEST)
    known: set[bytes] = set()
    if held_out is not None and evaluation is not None:
        known = _check_file(held_out, evaluation["digest"], keep=True)
    both = known & _check_file(train, dataset.get("digest"), keep=False, among=known)
    if both:
        raise JobLaunchError(
            f"{len(both)} of the held-out rows are training rows too, so their loss would show nothing",
            BAD_REQUEST,
            hint="take them out of one of the datasets",
        )


def _check_file(
    path: Path, digest: str | None, *, keep: bool, among: AbstractSet[bytes] = frozenset()
) -> set[bytes]:
    """Return hashes of the rows (`keep`), or of those in `among`, of a file that has this SHA-256 (None: any)."""
    whole, rows = hashlib.sha256(), set()
    if path.exists() and not path.is_file():  # a pipe would be waited for
        raise JobLaunchError(f"the dataset {path} is no file", BAD_REQUEST, hint=_UPLOAD)
    try:
        with path.open("rb") as file:
            for line in file:
                whole.update(line)
                if keep or among:
                    row = hashlib.sha256(line).digest()
                    if keep or row in among:
                        rows.add(row)
    except OSError as error:
        raise JobLaunchError(
            f"the dataset {path} cannot be read: {error.strerror or error}", NOT_FOUND, hint=_UPLOAD
        ) from error
    if digest is not None and whole.hexdigest() != digest:
        raise JobLaunchError(f"the dataset {path} is not what was uploaded", BAD_REQUEST, hint=_UPLOAD)
    return rows
