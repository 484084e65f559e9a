"""A tiny environment and a tiny training run, shared by the training tests."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from castform.config import RunConfig
from castform.runs import RunStore

ENVIRONMENT = '''
from benchmax.envs import BaseEnv, Dataset, Example


class Short(BaseEnv):
    """Pays a reply that ends early, and a little for each letter e."""

    max_turns = 1

    async def create_dataset(self, split, base_dir, *, max_examples=None):
        names = [f"{split} {i}" for i in range(12 if split == "train" else 6)][:max_examples]
        return Dataset(
            [Example(id=n, payload={"prompt_messages": [{"role": "user", "content": n}]}) for n in names]
        )

    async def compute_reward(self, rollout):
        text = rollout.messages[-1]["content"] or ""
        return {"low": sum(ord(c) < 110 for c in text) / 12, "vowels": sum(c in "aeiou" for c in text) / 6}
'''


def send_once(number: signal.Signals, when: Callable[[Any], bool]) -> Callable[[Any, Any], None]:
    """Return a listener of a run that sends this process a signal at the first event that matches.

    A second signal would end the run at once, and several groups are often scored before the
    first has been heard.
    """
    sent = False

    def listen(run: Any, event: Any) -> None:
        nonlocal sent
        if not sent and when(event):
            sent = True
            signal.raise_signal(number)

    return listen


def write_environment(folder: Path, source: str = ENVIRONMENT) -> Path:
    path = folder / "tiny_env.py"
    path.write_text(source, encoding="utf-8")
    return path


def make_config(environment: Path, model: Path, /, **sections: dict[str, Any]) -> RunConfig:
    data: dict[str, dict[str, Any]] = {
        "environment": {"id": str(environment)},
        "model": {"id": str(model), "dtype": "float32", "device": "cpu"},
        "run": {"steps": 4, "threads": 1, "deterministic": True},
        "sampling": {"max_new_tokens": 6},
        "rl": {"groups_per_step": 2, "group_size": 3, "max_refills": 1},
        "optimizer": {"learning_rate": 0.02, "warmup_steps": 1, "tokens_per_microbatch": 64},
        "lora": {"rank": 4, "alpha": 8.0},
        "eval": {"examples": 4},
        "engine": {"max_batch": 16},
        "checkpoint": {"every": 2},
    }
    for name, values in sections.items():
        data[name] = {**data.get(name, {}), **values}
    return RunConfig.model_validate(data)


def run_whole(config: dict[str, Any], home: str, run_id: str) -> None:
    """Train or go on training, in a process of its own; CASTFORM_HOME is `home`."""
    os.environ["CASTFORM_HOME"] = home
    from castform.errors import UsageError
    from castform_trainer.rl.run import resume, train

    with RunStore.open(Path(home)) as store:
        try:
            status = store.get_run(run_id).status
        except UsageError:
            asyncio.run(train(RunConfig.model_validate(config), store=store, run_id=run_id))
        else:
            if status != "finished":  # it may have been killed on its way out
                asyncio.run(resume(run_id, store=store))


def run_command(words: Sequence[str], home: str) -> NoReturn:
    """Run the command line as `castform` does, in a process of its own; CASTFORM_HOME is `home`."""
    os.environ["CASTFORM_HOME"] = home
    from castform.cli.main import main

    sys.exit(main(words))
