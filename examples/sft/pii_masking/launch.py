"""The same finetuning from Python: make the data, upload it, and launch the run only when told to.

python examples/sft/pii_masking/launch.py              # prepares and uploads, starts nothing
python examples/sft/pii_masking/launch.py --launch     # starts the run as a process of its own
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from make_data import ROWS, make_datasets

from castform.platform import SftTrainingConfig, TrainerClient, TrainerError, upload_sft_assets

NAME = "pii-masking"
CONFIG = SftTrainingConfig(num_epochs=1, learning_rate=1e-3, lr_decay_style="cosine", global_batch_size=16)


def main(arguments: list[str] | None = None) -> int:
    """Prepare, upload, and launch if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--launch", action="store_true", help="start training; without it nothing is started")
    parser.add_argument("--corpus", type=Path, help="labelled texts in place of generated ones")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(arguments)
    try:
        datasets = make_datasets(args.corpus, seed=args.seed, rows=ROWS)
        assets = upload_sft_assets(
            dataset=datasets["train"].dataset, eval_dataset=datasets["held_out"].dataset, run_name=NAME
        )
        sys.stdout.write(
            f"{assets.row_count} rows to train on and {assets.eval_row_count} held out: {assets.dataset_path}\n"
        )
        if not args.launch:
            sys.stdout.write("nothing was started; --launch starts the run\n")
            return 0
        run_id = TrainerClient().launch_sft_run(assets=assets, name=NAME, config=CONFIG)
    except (OSError, ValueError, TrainerError) as error:
        parser.error(str(error))
    sys.stdout.write(f"run {run_id} was started; `castform runs status {run_id}` says how far it is\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
