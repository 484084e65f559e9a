"""Take GRPO steps with TRL's GRPOTrainer and print what each took."""

from __future__ import annotations

import tempfile
import time
from typing import Any

import torch
import workload
from datasets import Dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

MICRO_BATCH = 16
"""Completions of one forward and backward pass; generation takes all of a step at once."""

tokens_of_step: list[int] = []


def score(completions: list[list[dict[str, str]]], completion_ids: list[list[int]], **_: Any) -> list[float]:
    tokens_of_step.append(sum(len(ids) for ids in completion_ids))
    return [workload.reward(completion[-1]["content"]) for completion in completions]


class Clock(TrainerCallback):  # type: ignore[misc]  # untyped in the peer's environment
    """Times each step from its first micro-batch, generation included, to its optimiser step."""

    def __init__(self) -> None:
        self.began = 0.0
        self.seconds: list[float] = []

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.began = time.perf_counter()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.seconds.append(time.perf_counter() - self.began)


def main() -> None:
    arguments = workload.read_arguments()
    step_size = workload.PROMPTS_PER_STEP * workload.SAMPLES_PER_PROMPT
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        config = GRPOConfig(
            output_dir=folder,
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
            per_device_train_batch_size=MICRO_BATCH,
            gradient_accumulation_steps=step_size // MICRO_BATCH,
            num_generations=workload.SAMPLES_PER_PROMPT,
            max_completion_length=workload.MAX_NEW_TOKENS,
            learning_rate=workload.LEARNING_RATE,
            lr_scheduler_type="constant",
            max_steps=arguments.steps,
            temperature=1.0,
            beta=0.0,
            save_strategy="no",
            logging_strategy="no",
            report_to="none",
            disable_tqdm=True,
        )
        trainer = GRPOTrainer(
            model=AutoModelForCausalLM.from_pretrained(arguments.model, dtype=torch.float32),
            processing_class=AutoTokenizer.from_pretrained(arguments.model),
            reward_funcs=score,
            args=config,
            train_dataset=Dataset.from_list([{"prompt": prompt} for prompt in workload.make_prompts()]),
            peft_config=LoraConfig(
                r=workload.LORA_RANK,
                lora_alpha=workload.LORA_ALPHA,
                target_modules="all-linear",
                task_type="CAUSAL_LM",
            ),
            callbacks=[clock],
        )
        trainer.train()
    workload.print_steps(
        [
            {"seconds": seconds, "tokens": float(tokens), "groups": float(workload.PROMPTS_PER_STEP)}
            for seconds, tokens in zip(clock.seconds, tokens_of_step, strict=True)
        ]
    )


if __name__ == "__main__":
    main()
