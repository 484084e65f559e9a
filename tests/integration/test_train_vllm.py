"""Ten training steps whose rollouts a vLLM server samples."""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path

import pytest
import torch

from castform.config import load_config
from castform.runs import RunStore
from castform_trainer.rl.run import train
from castform_trainer.testing import make_tiny_model

PYTHON = Path(
    os.environ.get("CASTFORM_VLLM_PYTHON")
    or Path(os.environ.get("CASTFORM_VLLM_VENV") or Path(tempfile.gettempdir()) / "castform-vllm-venv")
    / "bin/python"
)

ENVIRONMENT = '''
"""Pays for plain letters: a reply of random bytes has few of them."""
from benchmax.envs import BaseEnv, Dataset, Example


class Letters(BaseEnv):
    max_turns = 1

    async def create_dataset(self, split, base_dir, *, max_examples=None):
        first = 0 if split == "train" else 1000
        return Dataset(
            [
                Example(f"{split}-{n}", {"prompt_messages": [{"role": "user", "content": f"Say {n}."}]})
                for n in range(first, first + (max_examples or 40))
            ]
        )

    async def compute_reward(self, rollout):
        text = rollout.messages[-1]["content"] or ""
        return {"letters": sum(c.isascii() and c.isalpha() for c in text) / max(len(text), 1)}
'''

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not PYTHON.is_file(), reason=f"no vLLM at {PYTHON}: `make setup-vllm` builds it"),
]


async def test_ten_steps_on_vllm_are_taken_on_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CASTFORM_HOME", str(tmp_path / "home"))
    torch.set_num_threads(1)
    model = make_tiny_model(tmp_path / "model", width=128)
    environment = tmp_path / "letters.py"
    environment.write_text(ENVIRONMENT)
    config = load_config(
        environment__id=str(environment),
        model__id=str(model),
        engine__name="vllm",
        engine__max_batch=16,
        engine__options={"python": str(PYTHON), "cpu_threads": 1, "kv_cache_gib": 1},
        run__steps=10,
        rl__group_size=4,
        rl__groups_per_step=4,
        sampling__max_new_tokens=12,
        lora__rank=8,
        optimizer__learning_rate=1e-2,
        optimizer__warmup_steps=1,
        eval__examples=8,
    )
    with RunStore.open() as store:
        result = await train(config, store=store)
        readings = [event.data for event in store.list_events(result.run_id, kind="canary")]
        rollouts = await asyncio.to_thread(store.list_rollouts, result.run_id, mode="train")
    assert (result.status, result.steps) == ("finished", 10)
    assert [reading["version"] for reading in readings] == list(range(1, 11))
    assert all(reading["gap"] < 3e-4 < reading["moved"] for reading in readings)
    assert len(rollouts) >= 10 * 16
    assert result.verdict is not None and result.before is not None and result.after is not None
    assert (result.adapter / "adapter_model.safetensors").is_file()
