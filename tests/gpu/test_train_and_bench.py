"""On a GPU: bf16 base with fp32 adapters trains, the canary holds, and the learner's speed is written down."""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import time
from pathlib import Path

import pytest
import torch

from castform.config import LoraSection, OptimizerSection, RlSection
from castform.runs import RunStore
from castform_trainer.losses import make_loss
from castform_trainer.models import load_causal_lm
from castform_trainer.rl.batch import make_batch
from castform_trainer.rl.policy import Policy
from castform_trainer.rl.run import train
from castform_trainer.rl.sequence import TrainSequence
from castform_trainer.testing import make_tiny_model

sys.path.insert(0, str(Path(__file__).parents[1] / "integration"))
from train_runs import make_config, write_environment

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]
LOSS = make_loss(RlSection())


@pytest.fixture(scope="module")
def figures():
    """Numbers of this session, written to $CASTFORM_GPU_FIGURES/gpu_figures.json at the end."""
    found = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
    yield found
    folder = Path(os.environ.get("CASTFORM_GPU_FIGURES") or ".")
    (folder / "gpu_figures.json").write_text(json.dumps(found, indent=2) + "\n")


def make_policy(folder, *, device, dtype):
    base = load_causal_lm(folder, device=device, dtype=dtype)
    return Policy(base, lora=LoraSection(), optimizer=OptimizerSection(learning_rate=1e-2, warmup_steps=0))


def make_sequences(*, groups, size, prompt, reply, vocabulary, seed=0):
    draw = random.Random(seed)
    found = []
    for group in range(groups):
        head = [draw.randrange(3, vocabulary) for _ in range(prompt)]
        for sample in range(size):
            tail = [draw.randrange(3, vocabulary) for _ in range(reply)]
            found.append(
                TrainSequence(
                    ids=head + tail,
                    mask=[0] * prompt + [1] * reply,
                    logprobs=[0.0] * prompt + [-8.0] * reply,
                    advantage=draw.uniform(-1, 1),
                    rollout=f"{group}-{sample}",
                )
            )
    return found


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-3), ("bfloat16", 0.15)])
def test_the_gpu_scores_and_learns_as_the_cpu_does(tmp_path, dtype, tolerance):
    folder = make_tiny_model(tmp_path)
    sequences = make_sequences(groups=2, size=4, prompt=20, reply=10, vocabulary=200)
    batch = make_batch(sequences, tokens_per_microbatch=128)
    cpu = make_policy(folder, device="cpu", dtype="float32")
    gpu = make_policy(folder, device="cuda", dtype=dtype)
    for _ in range(3):
        with torch.no_grad():
            expected = cpu.score(batch.micro_batches[0])
            found = gpu.score(batch.micro_batches[0].to(gpu.device)).cpu()
        assert float((expected - found).abs().mean()) < tolerance
        cpu.update([batch], LOSS)
        gpu.update([batch], LOSS)
    assert {weight.dtype for weight in gpu.parameters.values()} == {torch.float32}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_whole_run_on_the_gpu_ends_with_a_verdict(tmp_path, figures, dtype):
    model = make_tiny_model(tmp_path / "model")
    config = make_config(
        write_environment(tmp_path),
        model,
        model={"device": "cuda", "dtype": dtype},
        run={"steps": 10, "deterministic": False},
        rl={"groups_per_step": 4, "group_size": 8},
    )
    with RunStore.open(tmp_path / "home") as store:
        result = asyncio.run(train(config, store=store))
        gaps = [event.data["gap"] for event in store.list_events(result.run_id, kind="canary")]
    assert result.status == "finished" and result.verdict is not None
    figures[f"tiny run, {dtype}"] = {
        "train_seconds": result.train_seconds,
        "largest canary gap": max(gaps),
        "verdict": result.verdict.describe(),
    }


@pytest.mark.parametrize("tokens_per_microbatch", [2048, 8192])
def test_the_learners_speed_is_measured(tmp_path, figures, tokens_per_microbatch):
    folder = make_tiny_model(tmp_path, layers=28, width=1024, max_positions=4096)
    policy = make_policy(folder, device="cuda", dtype="bfloat16")
    sequences = make_sequences(groups=8, size=16, prompt=256, reply=256, vocabulary=200)
    batch = make_batch(sequences, tokens_per_microbatch=tokens_per_microbatch)
    policy.update([batch], LOSS)
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(3):
        policy.update([batch], LOSS)
    torch.cuda.synchronize()
    seconds = (time.perf_counter() - began) / 3
    figures[f"update, 28 layers of 1024, {tokens_per_microbatch} tokens a pass"] = {
        "seconds": seconds,
        "tree tokens a second": batch.tree_tokens / seconds,
        "tokens without sharing a second": batch.sequence_tokens / seconds,
        "peak memory GB": torch.cuda.max_memory_allocated() / 1e9,
    }
    assert seconds < 60
