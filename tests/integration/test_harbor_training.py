"""Training on Harbor task folders: the run is accounted, its tokens are those that were sampled, no box is left."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from castform.call_log import read_calls
from castform.cli.main import main
from castform.runs import RunStore
from castform_trainer.gateway.fidelity import count_fidelity, count_reencoded
from castform_trainer.gateway.trajectory import build_segments
from castform_trainer.testing import make_tiny_model

pytestmark = [pytest.mark.bubblewrap, pytest.mark.timeout(180)]
NUMBER = "/app/number.txt"
STEPS, SIZE = 2, 3
SETTINGS = (
    "env.harness=terminus-lite",
    'env.harness_args.system_prompt="Answer with commands."',
    "env.sandbox=bubblewrap",
    "env.eval_ratio=0.5",
    "env.keep_trials=all",
    "model.dtype=float32",
    "model.device=cpu",
    "run.threads=1",
    "sampling.max_new_tokens=6",
    "rl.groups_per_step=1",
    f"rl.group_size={SIZE}",
    "rl.max_refills=0",
    "lora.rank=4",
    "eval.examples=1",
)


@dataclass(frozen=True, kw_only=True)
class Trained:
    result: dict[str, Any]
    home: Path


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trained]:
    folder = tmp_path_factory.mktemp("harbor-training")
    torch.set_num_threads(1)
    model = make_tiny_model(folder / "model", max_positions=1024)
    for name in ("north", "south"):
        write_task(folder / "tasks" / name)
    words = ["train", "harbor", "-m", str(model), "--steps", str(STEPS), "--json"]
    words += [part for setting in (f"env.tasks={folder / 'tasks'}", *SETTINGS) for part in ("--set", setting)]
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CASTFORM_HOME", str(folder / "home"))
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(words)
        assert code == 0, err.getvalue()
        yield Trained(result=json.loads(out.getvalue()), home=folder / "home")


def write_task(folder: Path) -> None:
    """Write a task that pays a number from the agent's box, which no two boxes share: groups have a spread."""
    (folder / "tests").mkdir(parents=True)
    (folder / "environment").mkdir()
    (folder / "task.toml").write_text(
        f'artifacts = ["{NUMBER}"]\n'
        '[environment]\nnetwork_mode = "no-network"\n'
        f'[[verifier.collect]]\ncommand = "od -An -N2 -tu2 /dev/urandom > {NUMBER}"\n'
    )
    (folder / "instruction.md").write_text(f"Write a number to {NUMBER}. This is {folder.name}.\n")
    (folder / "environment" / "Dockerfile").write_text(
        "FROM castform/base:local\nRUN mkdir /app\nWORKDIR /app\n"
    )
    script = folder / "tests" / "test.sh"
    script.write_text(
        f"#!/bin/sh\nawk '{{ printf \"%.6f\\n\", $1 / 65536 }}' {NUMBER} > /logs/verifier/reward.txt\n"
    )
    script.chmod(0o755)


def test_every_rollout_on_a_harbor_task_is_accounted_for(trained: Trained) -> None:
    with RunStore.open(trained.home) as store:
        [run] = store.list_runs()
        rollouts = store.list_rollouts(run.run_id, mode="train", limit=1000)
        last = store.list_events(run.run_id, kind="conservation")[-1].data
    assert run.status == "finished" and len(rollouts) == last["issued"] == STEPS * SIZE
    assert last["issued"] == sum(last[fate] for fate in ("trained", "filtered", "failed", "stale", "pending"))
    assert last["failed"] == last["pending"] == 0 < last["trained"]
    assert {rollout.termination_reason for rollout in rollouts} <= {"finished", "output_exceeded"}


def test_each_rollout_has_the_reward_that_its_artifact_earned(trained: Trained) -> None:
    paid = []
    for file in trained.home.glob("harbor/trials/*/*/artifacts" + NUMBER):
        paid.append(round(int(file.read_text()) / 65536, 6))
    with RunStore.open(trained.home) as store:
        [run] = store.list_runs()
        rollouts = store.list_rollouts(run.run_id, mode="train", limit=1000)
    rewards = [rollout.rewards["reward"] for rollout in rollouts]
    assert len(set(rewards)) > 1 and set(rewards) <= set(paid)


def test_tokens_trained_on_harbor_tasks_are_the_sampled_ones(trained: Trained) -> None:
    run_dir = Path(trained.result["run_dir"])
    with RunStore.open(trained.home) as store:
        [run] = store.list_runs()
        rollouts = store.list_rollouts(run.run_id, mode="train", limit=1000)
        scalars = store.read_scalars(run.run_id, mode="train")["train"]
    calls: dict[str, list[Any]] = {}  # Any: a recorded call
    for path in run_dir.glob("calls/*.jsonl"):
        for call in read_calls(path):
            calls.setdefault(call.session_id, []).append(call)
    sampled = updated = 0
    for rollout in rollouts:
        own = calls[rollout.rollout_id]
        counts = count_fidelity(own)
        ids = {call.call_id: (call.prompt_ids or (), call.sampled_ids or ()) for call in own}
        assert counts.trained_tokens == counts.sampled_tokens == sum(len(new) for _, new in ids.values()) > 0
        assert count_reencoded(build_segments(own), ids) == 0
        sampled += counts.sampled_tokens
        updated += counts.trained_tokens if rollout.disposition == "trained" else 0
    assert 0 < updated == sum(point.value or 0 for point in scalars["tokens/trained"])
    assert sampled == sum(point.value or 0 for point in scalars["tokens/sampled"])
    assert all(point.value is not None and point.value < 1e-3 for point in scalars["train/sampler_gap_max"])


def test_no_box_of_harbor_training_is_left(trained: Trained) -> None:
    boxes = trained.home / "sandboxes" / "bubblewrap" / "boxes"
    assert boxes.is_dir() and list(boxes.iterdir()) == []
