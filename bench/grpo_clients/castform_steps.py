"""Take GRPO steps with castform, everything recorded, and print what each took."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

import workload

from castform.config import load_config
from castform.plugins.events import RunEvent, RunInfo, StepEnded
from castform.runs import RunStore
from castform_trainer.rl.run import train

PARTS = {"generate": "time/rollouts_seconds", "train": "time/update_seconds", "sync": "time/sync_seconds"}


def main() -> None:
    arguments = workload.read_arguments()
    config = load_config(
        None,
        [
            f"rl.groups_per_step={workload.PROMPTS_PER_STEP}",
            f"rl.group_size={workload.SAMPLES_PER_PROMPT}",
            "rl.max_refills=0",
            f"sampling.max_new_tokens={workload.MAX_NEW_TOKENS}",
            f"lora.rank={workload.LORA_RANK}",
            f"lora.alpha={workload.LORA_ALPHA}",
            f"optimizer.learning_rate={workload.LEARNING_RATE}",
            "optimizer.warmup_steps=0",
            "eval.examples=1",
        ],
        environment__id=str(Path(__file__).parent / "sums.py"),
        model__id=arguments.model,
        run__steps=arguments.steps,
    )
    steps: list[dict[str, float]] = []

    def on_event(run: RunInfo, event: RunEvent) -> None:
        if not isinstance(event, StepEnded):
            return
        scalars = event.scalars
        parts = {name: scalars[key] for name, key in PARTS.items()}
        seconds = scalars["time/step_seconds"]
        steps.append(
            {
                "seconds": seconds,
                "tokens": scalars["tokens/sampled"],
                "groups": scalars["groups/trained"],
                **parts,
                "other": seconds - sum(parts.values()),
            }
        )

    with tempfile.TemporaryDirectory() as folder, RunStore.open(home=Path(folder)) as store:
        asyncio.run(train(config, store=store, listeners=[on_event]))
    workload.print_steps(steps)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))  # for sums.py, which castform loads by its path
    main()
