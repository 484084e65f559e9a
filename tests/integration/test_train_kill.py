"""Closed-form test 14: kill -9 at any moment, resume, and the weights are those of the straight run."""

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
from train_runs import make_config, run_whole, write_environment

RUN = "killed"
MOMENTS = 20
FEW = 3


@pytest.fixture(scope="module")
def processes():
    """Children are forked from a server that has torch loaded: a start takes a blink."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["castform_trainer.rl.run", "transformers.models.qwen3.modeling_qwen3"])
    return context


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inputs")
    model = make_tiny_model(folder / "model")
    return make_config(write_environment(folder), model).model_dump(mode="json")


@pytest.fixture(scope="module")
def straight(tmp_path_factory, processes, config):
    """Weights, fates and recorded bytes of the run that nobody disturbs."""
    home = tmp_path_factory.mktemp("straight")
    child = processes.Process(target=run_whole, args=(config, str(home), RUN))
    child.start()
    child.join(240)
    assert child.exitcode == 0
    return outcome(home), recorded_bytes(home)


def outcome(home: Path):
    with RunStore.open(home) as store:
        assert store.get_run(RUN).status == "finished"
        fates = {r.rollout_id: r.disposition for r in store.list_rollouts(RUN, mode="train")}
        counts = store.list_events(RUN, kind="conservation")
        verdict = store.list_evals(RUN, label="verdict")[-1].result
    weights = (home / "runs" / RUN / "adapter" / "adapter_model.safetensors").read_bytes()
    return weights, fates, [event.data for event in counts], verdict


def recorded_bytes(home: Path) -> int:
    return sum(path.stat().st_size for path in (home / "runs" / RUN / "calls").glob("*.jsonl"))


def kill_at(child, home: Path, target: int, linger: float) -> bool:
    """Kill -9 once `target` bytes of calls are recorded and `linger` seconds have passed."""
    while child.is_alive() and recorded_bytes(home) < target:
        child.join(0.002)
    child.join(linger)
    alive = child.is_alive()
    if alive:
        os.kill(child.pid, signal.SIGKILL)
    child.join()
    return alive


def check_moments(moments, tmp_path, processes, config, straight):
    expected, size = straight
    draw = random.Random(11)
    killed = 0
    for number in range(moments):
        home = tmp_path / str(number)
        home.mkdir()
        child = processes.Process(target=run_whole, args=(config, str(home), RUN))
        child.start()
        share = (number + draw.random()) / moments
        killed += kill_at(child, home, int(share * size), draw.uniform(0, 0.4))
        child = processes.Process(target=run_whole, args=(config, str(home), RUN))
        child.start()
        child.join(240)
        assert child.exitcode == 0, f"moment {number}: the resumed run failed"
        assert outcome(home) == expected, f"moment {number} ({share:.0%} of the calls)"
    assert killed >= moments // 2


@pytest.mark.timeout(900)
def test_killed_at_a_few_moments_a_run_resumes_to_the_same_weights(tmp_path, processes, config, straight):
    check_moments(FEW, tmp_path, processes, config, straight)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_killed_at_twenty_moments_a_run_resumes_to_the_same_weights(tmp_path, processes, config, straight):
    check_moments(MOMENTS, tmp_path, processes, config, straight)
