"""Makes the context of a check from an environment's source, as certify makes it."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

from castform.certify.context import CheckContext
from castform.gold import RENDERINGS, read_gold
from castform.plugins.environments import load_environment

HEADER = "from benchmax.envs import BaseEnv, Dataset, Environment, Example, RolloutAttempt, RolloutFailure\n"
SUMS = """
class Sums(BaseEnv):
    max_turns = 1

    async def create_dataset(self, split, base_dir, *, max_examples=None):
        start = 10 if split == "train" else 1000
        rows = [self.row(n) for n in range(start, start + 24)]
        return Dataset(rows[:max_examples])

    def row(self, n):
        prompt = [{"role": "user", "content": f"What is {n} + {n}?"}]
        return Example(f"sum-{n}", {"prompt_messages": prompt, "answer": str(2 * n)})

    async def compute_reward(self, rollout):
        text = rollout.messages[-1]["content"] or ""
        return {"correct": float(text.strip() == rollout.example_args["answer"])}
"""
"""A sound environment of 24 examples a split; `replace` it to break it."""


def write_environment(folder: Path, source: str) -> Path:
    """Write an environment's source, the imports in front of it, to a file of its own."""
    path = folder / f"environment_{len(list(folder.iterdir()))}.py"
    path.write_text(HEADER + textwrap.dedent(source))
    return path


async def make_context(folder: Path, source: str = SUMS, **replaced: Any) -> CheckContext:
    return await load_context(write_environment(folder, source), **replaced)


async def load_context(path: Path, *, count: int = 24, seed: int = 0) -> CheckContext:
    """Load the environment of a file and what certify would load of it."""
    made = load_environment(str(path)).environment
    examples = {
        split: list(await made.create_dataset(split, path.parent, max_examples=count))
        for split in ("train", "eval")
    }
    return CheckContext(
        environment=made,
        make_environment=type(made),
        base_dir=path.parent,
        examples=examples,
        split="train",
        golds={example.id: read_gold(made, example) for example in examples["train"]},
        rendering=RENDERINGS[0],
        weights={},
        seed=seed,
        timeout_seconds=20.0,
    )


def codes(findings, *levels):
    """Return the codes of the findings of these levels (default: fault and warning), in order."""
    return [f.code for f in findings if f.level in (levels or ("fault", "warning"))]
