"""Take finetuning steps with castform's learner and print what each took."""

from __future__ import annotations

import time
from pathlib import Path

import torch
import workload

from castform.sft.config import SftConfig
from castform_trainer.models import load_causal_lm
from castform_trainer.sft.batch import Sample, make_batch
from castform_trainer.sft.learner import SftLearner


def main() -> None:
    arguments = workload.read_arguments()
    config = SftConfig.model_validate(
        {
            "lora": {"rank": workload.LORA_RANK, "alpha": float(workload.LORA_ALPHA)},
            "optimizer": {"learning_rate": workload.LEARNING_RATE, "decay": "constant", "warmup_ratio": 0.0},
        }
    )
    base = load_causal_lm(Path(arguments.model), dtype="float32", device="cpu")
    learner = SftLearner(base, config, seed=0, steps=arguments.steps, compute_dtype=torch.float32)
    samples = [
        Sample(row=number, ids=row["ids"], weights=[float(on) for on in row["trained"]])
        for number, row in enumerate(workload.read_rows(arguments.rows))
    ]
    steps = []
    for _ in range(arguments.steps):
        began, cpu = time.perf_counter(), time.process_time()
        batch = make_batch(
            samples,
            tokens_per_microbatch=config.batch.tokens_per_microbatch,
            packing=arguments.packing,
        )
        stats = learner.update(batch)
        assert stats is not None
        seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - cpu
        steps.append({"seconds": seconds, "cpu_seconds": cpu_seconds, "loss": stats.loss})
    workload.print_steps(steps)


if __name__ == "__main__":
    main()
