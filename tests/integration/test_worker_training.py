"""Training with the environment in worker processes: the same adapter, and a killed worker is accounted for."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest
import torch

from castform.runs import RunStore
from castform_trainer.rl.run import train
from castform_trainer.testing import make_tiny_model

sys.path.insert(0, str(Path(__file__).parent))
from train_runs import ENVIRONMENT, make_config, write_environment

KILLED_ONCE = ENVIRONMENT.replace(
    "        text = rollout",
    """        import os, pathlib, signal

        mark = pathlib.Path(__file__).with_name("killed")
        if rollout.split == "train" and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        text = rollout""",
    1,
)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    torch.set_num_threads(1)
    return make_tiny_model(tmp_path_factory.mktemp("model"))


def run(folder, model, source, *, workers):
    """Train and return the result, the adapter's bytes and the rollouts of training."""
    config = make_config(
        write_environment(folder, source),
        model,
        run={"steps": 1},
        eval={"examples": 2},
    )
    section = config.environment.model_copy(update={"workers": workers})
    config = config.model_copy(update={"environment": section})
    with RunStore.open(folder / f"home-{workers}") as store:
        result = asyncio.run(train(config, store=store))
        rollouts = store.list_rollouts(result.run_id, mode="train")
    rollouts.sort(key=lambda rollout: rollout.rollout_id)
    return result, (result.adapter / "adapter_model.safetensors").read_bytes(), rollouts


def test_a_run_with_workers_trains_the_same_adapter(tmp_path, model):
    here, adapter_here, rollouts_here = run(tmp_path, model, ENVIRONMENT, workers=0)
    there, adapter_there, rollouts_there = run(tmp_path, model, ENVIRONMENT, workers=2)
    assert [(r.rollout_id, r.score, r.pin) for r in rollouts_there] == [
        (r.rollout_id, r.score, r.pin) for r in rollouts_here
    ]
    assert adapter_there == adapter_here
    assert there.verdict.score == here.verdict.score


def test_a_worker_killed_in_the_middle_of_a_group_is_accounted_for_and_the_run_goes_on(tmp_path, model):
    result, _, rollouts = run(tmp_path, model, KILLED_ONCE, workers=1)
    assert (result.status, result.steps) == ("finished", 1)
    assert (tmp_path / "killed").exists()
    lost = [rollout for rollout in rollouts if rollout.termination_reason == "worker_lost"]
    assert {rollout.score for rollout in lost} == {None}
    assert {rollout.error for rollout in lost} == {"the worker process was ended by SIGKILL"}
    scored = [rollout for rollout in rollouts if rollout.score is not None]
    assert len(lost) in (3, 6)  # the group of three, and the other one of the step when it was there too
    assert len(lost) + len(scored) == len(rollouts)
