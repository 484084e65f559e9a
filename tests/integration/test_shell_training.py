"""Real weights, real containers: the run is accounted, its tokens are those that were sampled, no box is left."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from castform.call_log import read_calls
from castform.home import castform_home
from castform.runs import RunStore
from castform.sandbox.owner import PREFIX
from castform_trainer.gateway.fidelity import count_fidelity, count_reencoded
from castform_trainer.gateway.trajectory import build_segments

pytestmark = [pytest.mark.real, pytest.mark.docker, pytest.mark.timeout(600)]
CONFIG = Path(__file__).parents[2] / "examples" / "shell.toml"
STEPS, GROUPS, SIZE = 2, 2, 6
SETTINGS = (
    f"rl.groups_per_step={GROUPS}",
    f"rl.group_size={SIZE}",
    "eval.examples=1",
    "sampling.max_new_tokens=24",
    "env.sandbox=docker",
)


@dataclass(frozen=True, kw_only=True)
class Trained:
    pid: int
    result: dict[str, Any]
    home: Path


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    weights = castform_home() / "models" / "smollm2-135m"
    if not weights.exists():
        pytest.skip("no weights: castform model pull smollm2-135m")
    home = tmp_path_factory.mktemp("home")
    (home / "models").symlink_to(weights.parent)
    command = [sys.executable, "-m", "castform", "train", "--config", str(CONFIG), "--json"]
    command += ["--steps", str(STEPS), *(part for setting in SETTINGS for part in ("--set", setting))]
    with subprocess.Popen(
        command,
        env={**os.environ, "CASTFORM_HOME": str(home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        out, err = process.communicate()
    assert process.returncode == 0, err
    return Trained(pid=process.pid, result=json.loads(out), home=home)


def test_every_rollout_in_a_container_is_accounted_for(trained: Trained) -> None:
    with RunStore.open(trained.home) as store:
        [run] = store.list_runs()
        rollouts = store.list_rollouts(run.run_id, mode="train", limit=1000)
        last = store.list_events(run.run_id, kind="conservation")[-1].data
        scalars = store.read_scalars(run.run_id, mode="train")["train"]
    assert run.status == "finished" and len(rollouts) == last["issued"] == STEPS * GROUPS * SIZE
    assert last["issued"] == sum(last[fate] for fate in ("trained", "filtered", "failed", "stale", "pending"))
    assert last["failed"] == last["pending"] == 0
    assert Counter(rollout.termination_reason for rollout in rollouts).keys() <= {
        "finished",
        "output_exceeded",
    }
    assert all(set(rollout.rewards) == {"correct", "touched"} for rollout in rollouts)
    assert all(point.value < 1e-3 for point in scalars["train/sampler_gap_max"])


def test_trained_tokens_are_the_sampled_ones(trained: Trained) -> None:
    run_dir = Path(trained.result["run_dir"])
    with RunStore.open(trained.home) as store:
        [run] = store.list_runs()
        rollouts = store.list_rollouts(run.run_id, mode="train", limit=1000)
        scalars = store.read_scalars(run.run_id, mode="train")["train"]
    calls = {call.session_id: call for path in run_dir.glob("calls/*.jsonl") for call in read_calls(path)}
    updated = 0
    for rollout in rollouts:
        call = calls[rollout.rollout_id]
        segments = build_segments([call])
        counts = count_fidelity([call])
        assert counts.trained_tokens == counts.sampled_tokens == len(call.sampled_ids or ()) > 0
        assert count_reencoded(segments, {call.call_id: (call.prompt_ids or (), call.sampled_ids or ())}) == 0
        updated += counts.trained_tokens if rollout.disposition == "trained" else 0
    assert 0 < updated == sum(point.value or 0 for point in scalars["tokens/trained"])
    assert sum(point.value or 0 for point in scalars["tokens/sampled"]) == sum(
        len(calls[rollout.rollout_id].sampled_ids or ()) for rollout in rollouts
    )


def test_no_container_is_left(trained: Trained) -> None:
    listing = ["docker", "ps", "--all", "--quiet", "--filter", f"label={PREFIX}pid={trained.pid}"]
    assert subprocess.run(listing, capture_output=True, text=True, check=True).stdout == ""
