"""Take finetuning steps with TRL's SFTTrainer and print what each took."""

from __future__ import annotations

import tempfile
import time
from typing import Any

import torch
import workload
from datasets import Dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import SFTConfig, SFTTrainer

MICRO_BATCH = 8
"""Padded rows of one forward and backward pass: TRL's default."""


class Clock(TrainerCallback):  # type: ignore[misc]  # untyped in the peer's environment
    """Times each step from its first micro-batch to its optimiser step, and keeps its loss."""

    def __init__(self) -> None:
        self.began = self.cpu = 0.0
        self.steps: list[dict[str, float]] = []

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.began, self.cpu = time.perf_counter(), time.process_time()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        seconds, cpu_seconds = time.perf_counter() - self.began, time.process_time() - self.cpu
        self.steps.append({"seconds": seconds, "cpu_seconds": cpu_seconds, "loss": float("nan")})

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        if logs and "loss" in logs:
            self.steps[-1]["loss"] = logs["loss"]


def main() -> None:
    arguments = workload.read_arguments()
    rows = workload.read_rows(arguments.rows)
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        config = SFTConfig(
            output_dir=folder,
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
            # Packed, a step is one epoch of packs; otherwise it is all rows in padded micro-batches.
            per_device_train_batch_size=1 if arguments.packing else MICRO_BATCH,
            gradient_accumulation_steps=len(rows) if arguments.packing else len(rows) // MICRO_BATCH,
            packing=arguments.packing,
            max_length=workload.TOKENS_PER_PACK,
            learning_rate=workload.LEARNING_RATE,
            lr_scheduler_type="constant",
            max_steps=arguments.steps,
            save_strategy="no",
            logging_steps=1,
            report_to="none",
            disable_tqdm=True,
        )
        trainer = SFTTrainer(
            model=AutoModelForCausalLM.from_pretrained(arguments.model, dtype=torch.float32),
            processing_class=AutoTokenizer.from_pretrained(arguments.model),
            args=config,
            train_dataset=Dataset.from_list(
                [{"input_ids": row["ids"], "assistant_masks": row["trained"]} for row in rows]
            ),
            peft_config=LoraConfig(
                r=workload.LORA_RANK,
                lora_alpha=workload.LORA_ALPHA,
                target_modules="all-linear",
                task_type="CAUSAL_LM",
            ),
            callbacks=[clock],
        )
        trainer.train()
    workload.print_steps(clock.steps)


if __name__ == "__main__":
    main()
