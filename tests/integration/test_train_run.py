"""A whole training run on a tiny model: verdict, store, adapter, stops, faults."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from pathlib import Path

import pytest
import torch

from castform.cli.main import main
from castform.config import RunConfig
from castform.errors import MissingError, RunFailedError, UsageError
from castform.plugins.events import CheckpointSaved, EvalEnded, GroupScored, RunEnded, RunStarted, StepEnded
from castform.runs import RunStore
from castform_trainer.learning.checkpoint import list_checkpoints
from castform_trainer.models import load_causal_lm
from castform_trainer.rl.run import resume, train
from castform_trainer.testing import make_tiny_model

sys.path.insert(0, str(Path(__file__).parent))  # for the processes that the tests start, too
from train_runs import ENVIRONMENT, make_config, send_once, write_environment


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    torch.set_num_threads(1)
    return make_tiny_model(tmp_path_factory.mktemp("model"))


@pytest.fixture
def store(tmp_path):
    with RunStore.open(tmp_path / "home") as opened:
        yield opened


@pytest.fixture(scope="module")
def whole(tmp_path_factory, model):
    """One finished run that several tests look at: (result, store, events)."""
    folder = tmp_path_factory.mktemp("whole")
    events = []
    with RunStore.open(folder / "home") as opened:
        config = make_config(write_environment(folder), model)
        work = train(config, store=opened, listeners=[lambda run, event: events.append(event)])
        yield asyncio.run(work), opened, events


def adapter_bytes(result):
    return (result.adapter / "adapter_model.safetensors").read_bytes()


def test_a_run_ends_with_a_verdict_on_the_same_held_out_examples(whole):
    result, store, _ = whole
    assert (result.status, result.steps, result.stopped_by) == ("finished", 4, None)
    assert [e.example_id for e in result.before.examples] == [e.example_id for e in result.after.examples]
    assert result.verdict.score.examples == 4
    assert store.get_run(result.run_id).status == "finished"
    assert [record.label for record in store.list_evals(result.run_id)] == ["before", "after", "verdict"]


def test_every_rollout_is_stored_with_what_became_of_it(whole):
    result, store, _ = whole
    rollouts = store.list_rollouts(result.run_id, mode="train")
    assert len({rollout.rollout_id for rollout in rollouts}) == len(rollouts)
    counts = store.list_events(result.run_id, kind="conservation")
    assert [event.step for event in counts] == [1, 2, 3, 4]
    last = counts[-1].data
    assert last["issued"] == len(rollouts)
    assert last["pending"] == 0
    assert last["issued"] == sum(last[k] for k in ("trained", "filtered", "failed", "stale", "pending"))
    stored = [rollout.disposition for rollout in rollouts]
    assert last["by_reason"] == {reason: stored.count(reason) for reason in sorted(set(stored))}


def test_every_rollout_carries_the_pin_of_its_environment(whole):
    result, store, _ = whole
    [pin] = store.list_pins(result.run_id)
    assert {rollout.pin for rollout in store.list_rollouts(result.run_id)} == {pin.digest}
    assert pin.pin == store.get_run(result.run_id).environment
    assert pin.pin["id"] == "tiny_env.py:Short"
    assert sorted(pin.pin["datasets"]) == ["eval", "train"]
    assert {split: marks["count"] for split, marks in pin.details["examples"].items()} == {
        "eval": 4,
        "train": 12,
    }


def test_listeners_hear_the_run_in_order(whole):
    _, _, events = whole
    kinds = [type(event) for event in events if not isinstance(event, GroupScored)]
    step_and_save = [StepEnded, StepEnded, CheckpointSaved]
    assert kinds == [
        RunStarted,
        EvalEnded,
        CheckpointSaved,
        *step_and_save,
        *step_and_save,
        EvalEnded,
        RunEnded,
    ]
    assert events[-1].status == "finished"


def test_scalars_of_each_step_are_in_the_store(whole):
    result, store, _ = whole
    scalars = store.read_scalars(result.run_id, mode="train")["train"]
    for name in ("reward/mean", "reward/component/low", "time/step_seconds", "groups/signal_share"):
        assert [point.step for point in scalars[name]] == [1, 2, 3, 4]


def test_the_engine_and_the_trainer_agree_on_every_sampled_token(whole):
    result, store, _ = whole
    gaps = store.read_scalars(result.run_id, mode="train")["train"]["train/sampler_gap_max"]
    assert all(point.value < 1e-3 for point in gaps)
    canaries = store.list_events(result.run_id, kind="canary")
    assert canaries and all(event.data["gap"] < 1e-4 for event in canaries)
    assert max(event.data["moved"] for event in canaries) > 0.01


def test_the_adapter_is_a_plain_peft_folder_that_reproduces_the_canary(whole, model):
    from peft import PeftModel

    result, _, _ = whole
    canary = json.loads((result.run_dir / "canary.json").read_text())
    loaded = PeftModel.from_pretrained(
        load_causal_lm(model, device="cpu", dtype="float32"), str(result.adapter)
    )
    with torch.no_grad():
        logprobs = loaded(torch.tensor([canary["ids"]])).logits[0].log_softmax(-1)
    found = [float(logprobs[i, token]) for i, token in enumerate(canary["ids"][1:])]
    assert found == pytest.approx(canary["logprobs"], abs=1e-4)


def test_the_same_seed_trains_the_same_weights(whole, tmp_path, model, store):
    result, _, _ = whole
    again = asyncio.run(train(make_config(write_environment(tmp_path), model), store=store))
    assert adapter_bytes(again) == adapter_bytes(result)
    other = make_config(write_environment(tmp_path), model, run={"seed": 1})
    assert adapter_bytes(asyncio.run(train(other, store=store))) != adapter_bytes(result)


def test_a_stopped_run_goes_on_to_the_same_weights(whole, tmp_path, model, store):
    result, _, _ = whole
    stop = send_once(signal.SIGINT, lambda event: isinstance(event, GroupScored) and event.step == 4)
    config = make_config(write_environment(tmp_path), model)
    stopped = asyncio.run(train(config, store=store, listeners=[stop]))
    assert (stopped.status, stopped.stopped_by, stopped.steps) == ("stopped", "signal", 3)
    assert stopped.verdict is None
    assert store.get_run(stopped.run_id).status == "stopped"
    assert list_checkpoints(stopped.run_dir / "checkpoints")[-1].step == 3
    resumed = asyncio.run(resume(stopped.run_id, store=store))
    assert (resumed.status, resumed.steps) == ("finished", 4)
    assert adapter_bytes(resumed) == adapter_bytes(result)
    assert resumed.verdict.as_dict() == result.verdict.as_dict()


def test_a_stop_request_in_the_store_stops_the_run(tmp_path, model, store):
    def ask(run, event):
        if isinstance(event, StepEnded):
            store.request_stop(run.run_id)

    config = make_config(write_environment(tmp_path), model, run={"steps": 10_000})
    result = asyncio.run(train(config, store=store, listeners=[ask]))
    assert (result.status, result.stopped_by) == ("stopped", "requested")


def test_out_of_time_the_run_still_gives_a_verdict(tmp_path, model, store):
    config = make_config(write_environment(tmp_path), model, run={"steps": 10_000, "max_seconds": 0.5})
    result = asyncio.run(train(config, store=store))
    assert (result.status, result.stopped_by) == ("finished", "time")
    assert result.verdict is not None
    assert result.steps < 10_000 and result.train_seconds < 60


def test_a_run_without_any_signal_stops_and_explains(tmp_path, model, store):
    source = ENVIRONMENT[: ENVIRONMENT.index("        text =")] + '        return {"correct": 0.0}\n'
    config = make_config(write_environment(tmp_path, source), model)
    with pytest.raises(RunFailedError, match="no signal: in 3 steps") as caught:
        asyncio.run(train(config, store=store))
    assert "every reward was 0" in caught.value.hint
    (run,) = store.list_runs()
    assert run.status == "failed" and "no signal" in run.error
    assert len(store.list_events(run.run_id, kind="skipped_step")) == 3
    assert {r.disposition for r in store.list_rollouts(run.run_id, mode="train")} == {"filtered(no_signal)"}


def test_failures_are_reasons_and_never_rewards(tmp_path, model, store):
    source = ENVIRONMENT.replace(
        "        text = rollout",
        '        if rollout.rollout_id.endswith("-0"):\n            raise RuntimeError("boom")\n        text = rollout',
    )
    config = make_config(write_environment(tmp_path, source), model, run={"steps": 1}, eval={"samples": 2})
    result = asyncio.run(train(config, store=store))
    rollouts = store.list_rollouts(result.run_id, mode="train")
    failed = [rollout for rollout in rollouts if rollout.rollout_id.endswith("-0")]
    assert failed and all(r.score is None and r.disposition.startswith("failed(") for r in failed)
    assert all("boom" in r.error for r in failed)


def test_a_run_whose_held_out_rollouts_all_fail_ends_before_it_trains(tmp_path, model, store):
    source = ENVIRONMENT.replace(
        "        text = rollout", '        raise RuntimeError("boom")\n        text = rollout'
    )
    with pytest.raises(RunFailedError, match=r"none of 4 held-out rollouts was scored .*boom"):
        asyncio.run(train(make_config(write_environment(tmp_path, source), model), store=store))
    (run,) = store.list_runs()
    assert run.status == "failed" and store.list_rollouts(run.run_id, mode="train") == []


@pytest.mark.parametrize(
    ("sections", "text"),
    [
        ({"lora": {"targets": ["nonesuch"]}}, "nonesuch"),
        ({"engine": {"options": {"nonesuch": 1}}}, "nonesuch"),
        ({"run": {"watchers": ["nonesuch"]}}, "nonesuch"),
    ],
)
def test_a_run_that_cannot_start_leaves_nothing_behind(tmp_path, model, store, sections, text):
    with pytest.raises(UsageError, match=text):
        asyncio.run(train(make_config(write_environment(tmp_path), model, **sections), store=store))
    assert store.list_runs() == []
    assert list((store.home / "runs").glob("*")) == []


def test_held_out_examples_that_are_trained_on_are_refused_before_anything_starts(tmp_path, model, store):
    source = ENVIRONMENT.replace('f"{split} {i}"', 'f"same {i}"')
    with pytest.raises(UsageError, match="training examples too"):
        asyncio.run(train(make_config(write_environment(tmp_path, source), model), store=store))
    assert store.list_runs() == []


def test_an_environment_that_is_not_ready_ends_a_run_and_a_plan_before_anything_starts(
    tmp_path, model, store, capsys
):
    source = (
        ENVIRONMENT
        + """
    async def check_ready(self):
        raise ConnectionError("no answer at port 9")
"""
    )
    environment = write_environment(tmp_path, source)
    with pytest.raises(MissingError, match="no answer at port 9"):
        asyncio.run(train(make_config(environment, model), store=store, run_id="m"))
    assert store.list_runs() == [] and not list(store.home.glob("runs/*"))
    assert main(["train", str(environment), "-m", str(model), "--dry-run"]) == 3
    assert "no answer at port 9" in capsys.readouterr().err


def test_a_changed_environment_is_not_resumed(tmp_path, model, store):
    environment = write_environment(tmp_path)
    result = asyncio.run(train(make_config(environment, model, run={"steps": 1}), store=store))
    changed = ENVIRONMENT.replace("range(12 if", "range(13 if").replace("/ 12", "/ 10")
    assert changed.count("13") == changed.count("/ 10") == 1
    environment.write_text(changed)
    before = store.get_run(result.run_id)
    with pytest.raises(UsageError) as caught:
        asyncio.run(resume(result.run_id, store=store))
    assert str(caught.value).splitlines()[1:] == [
        "  files: changed tiny_env.py",
        "  train dataset: 12 examples then, 13 now; new from 'train 12' on",
    ]
    assert f"castform rescore {result.run_id}" in caught.value.hint
    assert "put it back as it was" in caught.value.hint
    assert store.get_run(result.run_id) == before
    environment.write_text(ENVIRONMENT)
    with pytest.raises(UsageError, match="has finished its 1 steps"):
        asyncio.run(resume(result.run_id, store=store))


def test_a_finished_run_goes_on_only_for_more_steps(tmp_path, model, store):
    config = make_config(write_environment(tmp_path), model, run={"steps": 1})
    result = asyncio.run(train(config, store=store))
    with pytest.raises(UsageError, match="has finished its 1 steps"):
        asyncio.run(resume(result.run_id, store=store))
    more = RunConfig.model_validate({**config.model_dump(), "run": {**config.run.model_dump(), "steps": 2}})
    longer = asyncio.run(resume(result.run_id, store=store, change=lambda _: more))
    assert store.get_run(result.run_id).config["run"]["steps"] == more.run.steps
    assert (longer.status, longer.steps) == ("finished", 2)
    straight = asyncio.run(train(more, store=store))
    assert adapter_bytes(longer) == adapter_bytes(straight)


def test_minibatches_and_evaluations_on_the_way_work_together(tmp_path, model, store):
    config = make_config(
        write_environment(tmp_path),
        model,
        run={"steps": 2},
        rl={"minibatches": 2, "normalize_advantage": True},
        eval={"every": 1, "samples": 2, "temperature": 1.0},
    )
    result = asyncio.run(train(config, store=store))
    labels = [record.label for record in store.list_evals(result.run_id)]
    assert labels == ["before", "step", "after", "verdict"]
