"""Small files and a small finetuning run, shared by the finetuning tests."""

from __future__ import annotations

import asyncio
import json
import os
import random
from pathlib import Path
from typing import Any

from castform.runs import RunStore
from castform.sft.config import SftConfig


def make_rows(count: int, *, seed: int = 0, tag: str = "") -> list[dict[str, Any]]:
    """Return distinct rows with something to learn: an answer repeats a word of its question."""
    draw = random.Random(seed)
    rows = []
    for number in range(count):
        word = draw.choice(["red", "blue", "green"])
        messages = [
            {"role": "user", "content": f"{tag}{number} {word}" + "!" * draw.randrange(6)},
            {"role": "assistant", "content": f"it is {word}"},
        ]
        if number % 5 == 0:
            messages += [{"role": "user", "content": "so?"}, {"role": "assistant", "content": word}]
            messages[1]["weight"] = 0
        rows.append({"messages": messages})
    return rows


def write_rows(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def write_files(folder: Path) -> dict[str, str]:
    """Write 20 rows to train on and 8 held out; return them as a [data] section."""
    return {
        "train": str(write_rows(folder / "train.jsonl", make_rows(20))),
        "eval": str(write_rows(folder / "eval.jsonl", make_rows(8, seed=1, tag="h"))),
    }


def make_config(model: Path, data: dict[str, str], /, **sections: dict[str, Any]) -> SftConfig:
    found: dict[str, dict[str, Any]] = {
        "data": dict(data),
        "model": {"id": str(model), "dtype": "float32", "device": "cpu"},
        "run": {"epochs": 2, "threads": 1},
        "batch": {"rows": 5, "tokens_per_microbatch": 128},
        "optimizer": {"learning_rate": 0.02},
        "lora": {"rank": 4, "alpha": 8.0},
        "eval": {"every": 3},
        "checkpoint": {"every": 2},
    }
    for name, values in sections.items():
        found[name] = {**found.get(name, {}), **values}
    return SftConfig.model_validate(found)


def run_whole(config: dict[str, Any], home: str, run_id: str) -> None:
    """Train or go on training, in a process of its own; CASTFORM_HOME is `home`."""
    os.environ["CASTFORM_HOME"] = home
    from castform.errors import UsageError
    from castform_trainer.sft.run import resume_sft, train_sft

    with RunStore.open(Path(home)) as store:
        try:
            status = store.get_run(run_id).status
        except UsageError:
            asyncio.run(train_sft(SftConfig.model_validate(config), store=store, run_id=run_id))
        else:
            if status != "finished":  # it may have been killed on its way out
                asyncio.run(resume_sft(run_id, store=store))
