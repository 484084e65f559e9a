"""Write train.jsonl, validation.jsonl and held_out.jsonl: texts with personal data, and the same texts masked.

    python examples/sft/pii_masking/make_data.py                       # generated, into data/ beside this file
    python examples/sft/pii_masking/make_data.py --corpus mine.jsonl   # your own labelled texts

The same seed gives the same bytes. Nobody is in generated data: fictional.py says why.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from pathlib import Path

from corpus import generate_records, read_records
from mapping import Mapped, map_records

from benchmax.sft import SftDatasetError

ROWS = {"train": 480, "validation": 100, "held_out": 120}
DATA = Path(__file__).parent / "data"


def make_datasets(corpus: Path | None, *, seed: int, rows: dict[str, int]) -> dict[str, Mapped]:
    """Return the dataset of each split; a corpus in a file is dealt out from its start, training rows last."""
    labelled = None if corpus is None else read_records(corpus)
    seen: set[str] = set()
    mapped = {}
    for split in reversed(rows):
        records = generate_records(split, seed=seed) if labelled is None else labelled
        try:
            mapped[split] = map_records(records, rows=rows[split], seen=seen)
        except SftDatasetError as error:
            raise ValueError(f"no {split} rows: {error}") from error
    return mapped


def main(arguments: list[str] | None = None) -> int:
    """Write the files and say what is in them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", nargs="?", type=Path, default=DATA, help="where the files go")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--corpus", type=Path, help="labelled texts, one JSON object a line")
    for split, rows in ROWS.items():
        parser.add_argument(
            f"--{split.replace('_', '-')}", type=int, default=rows, metavar="ROWS", dest=split
        )
    args = parser.parse_args(arguments)
    rows = {split: getattr(args, split) for split in ROWS}
    try:
        datasets = make_datasets(args.corpus, seed=args.seed, rows=rows)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    args.folder.mkdir(parents=True, exist_ok=True)
    for split, mapped in datasets.items():
        data = mapped.dataset.to_jsonl_bytes()
        path = args.folder / f"{split}.jsonl"
        path.write_bytes(data)
        left_out = ", ".join(f"{count} {reason}" for reason, count in sorted(mapped.left_out.items()))
        digest = hashlib.sha256(data).hexdigest()
        sys.stdout.write(
            f"{path}: {len(mapped.dataset)} rows, sha256 {digest[:16]}, left out: {left_out or 'none'}\n"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
