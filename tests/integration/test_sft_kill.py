"""Closed-form test 14 for finetuning: kill -9 at any moment, resume, and the weights are those of the straight run."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import sys
from pathlib import Path

import pytest

from castform.runs import RunStore
from castform_trainer.testing import make_tiny_model

sys.path.insert(0, str(Path(__file__).parent))  # for the processes that the tests start, too
from sft_runs import make_config, run_whole, write_files

RUN = "killed"
MOMENTS = {"lora": 20, "full": 6}
"""A resumed run of all weights reads the same checkpoints by the same code; only what is in them differs."""
FEW = 2


@pytest.fixture(scope="module")
def processes():
    """Children are forked from a server that has torch loaded: a start takes a blink."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["castform_trainer.sft.run", "transformers.models.qwen3.modeling_qwen3"])
    return context


@pytest.fixture(scope="module", params=["lora", pytest.param("full", marks=pytest.mark.slow)])
def config(tmp_path_factory, request):
    folder = tmp_path_factory.mktemp("inputs")
    model = make_tiny_model(folder / "model")
    rate = {"lora": 0.02, "full": 0.002}[request.param]
    sections = {"run": {"method": request.param, "epochs": 4}, "optimizer": {"learning_rate": rate}}
    return make_config(model, write_files(folder), **sections).model_dump(mode="json")


@pytest.fixture(scope="module")
def straight(tmp_path_factory, processes, config):
    """Weights, curves and verdict of the run that nobody disturbs."""
    home = tmp_path_factory.mktemp("straight")
    child = processes.Process(target=run_whole, args=(config, str(home), RUN))
    child.start()
    child.join(120)
    assert child.exitcode == 0
    return outcome(home)


def outcome(home: Path):
    with RunStore.open(home) as store:
        assert store.get_run(RUN).status == "finished"
        scalars = store.read_scalars(RUN)
        curves = {
            name: [(point.step, point.value) for point in points]
            for names in scalars.values()
            for name, points in names.items()
            if not name.startswith(("time/", "speed/"))
        }
        evals = {
            (e.label, e.step): e.result.get("answers") or e.result.get("rows") or e.result
            for e in store.list_evals(RUN)
        }
    folder = home / "runs" / RUN
    (weights,) = [*folder.glob("adapter/*.safetensors"), *folder.glob("model/*.safetensors")]
    return weights.read_bytes(), curves, evals


def newest_checkpoint(home: Path) -> int:
    """Return the step of the newest checkpoint, one that is being written included; -1 before the first."""
    found = (home / "runs" / RUN / "checkpoints").glob("*-*")
    return max((int(path.name.rpartition("-")[2]) for path in found), default=-1)


def kill_at(child, home: Path, target: int, linger: float) -> bool:
    """Kill -9 once the checkpoint of `target` is begun and `linger` seconds have passed."""
    while child.is_alive() and newest_checkpoint(home) < target:
        child.join(0.003)
    child.join(linger)
    alive = child.is_alive()
    if alive:
        os.kill(child.pid, signal.SIGKILL)
    child.join()
    return alive


def check_moments(moments, tmp_path, processes, config, straight):
    draw = random.Random(5)
    killed = 0
    for number in range(moments):
        home = tmp_path / str(number)
        home.mkdir()
        child = processes.Process(target=run_whole, args=(config, str(home), RUN))
        child.start()
        target = int((number + draw.random()) / moments * 16) - 1
        killed += kill_at(child, home, target, draw.uniform(0, 0.15))
        child = processes.Process(target=run_whole, args=(config, str(home), RUN))
        child.start()
        child.join(120)
        assert child.exitcode == 0, f"moment {number}: the resumed run failed"
        assert outcome(home) == straight, f"moment {number} (killed from step {target} on)"
    assert killed >= moments // 2


@pytest.mark.timeout(300)
def test_killed_at_a_few_moments_finetuning_resumes_to_the_same_weights(
    tmp_path, processes, config, straight
):
    check_moments(FEW, tmp_path, processes, config, straight)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_killed_at_many_moments_finetuning_resumes_to_the_same_weights(tmp_path, processes, config, straight):
    check_moments(MOMENTS[config["run"]["method"]], tmp_path, processes, config, straight)
