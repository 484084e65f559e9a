"""A composed environment trains: parts of three plugins, each part's reward with every rollout, resume and rescore."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from pathlib import Path

import pytest
import torch

from castform.cli.main import main
from castform.config import load_config
from castform.errors import UsageError
from castform.plugins.events import GroupScored
from castform.runs import RunStore
from castform_trainer.rl.run import resume, train
from castform_trainer.testing import make_tiny_model

sys.path.insert(0, str(Path(__file__).parent))  # for the module beside this one
from train_runs import send_once

TOML = """
[environment]
dataset = {{ id = "arith/add", args = {{ train_examples = 12, eval_examples = 6 }} }}
prompt = "{{question}}"

[[environment.rewards]]
id = "lettered/below"            # what a random model earns now more, now less of
name = "low"
args = {{ letter = "n" }}

[[environment.rewards]]
id = "lookup/format"
weight = 0.5

[[environment.rewards]]
id = "arith/correct"
weight = 0.0

[model]
id = "{model}"
dtype = "float32"
device = "cpu"

[run]
steps = 3
threads = 1
deterministic = true

[sampling]
max_new_tokens = 8

[rl]
groups_per_step = 2
group_size = 4
max_refills = 2

[optimizer]
learning_rate = 0.02
tokens_per_microbatch = 64

[lora]
rank = 4

[eval]
examples = 2

[checkpoint]
every = 1
"""
PARTS = {"low", "lookup/format", "arith/correct"}
PLUGIN = """
from castform.plugins import RewardSpec, hookimpl


@hookimpl
def register_rewards():
    return [RewardSpec(name="below", summary="Share of early characters", factory="castform_env_lettered:below")]


def below(text: str, letter: str) -> float:
    return sum(character < letter for character in text) / 8
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with run.toml, a model, and a plugin of somebody's that can be imported."""
    folder = tmp_path_factory.mktemp("composed")
    torch.set_num_threads(1)
    (folder / "run.toml").write_text(TOML.format(model=make_tiny_model(folder / "model")))
    (folder / "castform_env_lettered.py").write_text(PLUGIN)
    info = folder / "castform_env_lettered-2.5.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: castform-env-lettered\nVersion: 2.5\n")
    (info / "entry_points.txt").write_text("[castform]\nlettered = castform_env_lettered\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        yield folder


@pytest.fixture(scope="module")
def stopped(place):
    """A run of run.toml that was stopped by Ctrl-C in its second step, and the store that it is in."""
    with RunStore.open(place / "home") as store:
        stop = send_once(signal.SIGINT, lambda event: isinstance(event, GroupScored) and event.step == 2)
        work = train(load_config(place / "run.toml"), store=store, listeners=[stop])
        yield asyncio.run(work), store


def test_the_run_was_stopped_before_its_last_step(stopped):
    result, _ = stopped
    assert (result.status, result.stopped_by, result.verdict) == ("stopped", "signal", None)
    assert 1 <= result.steps < 3


def test_every_rollout_in_the_store_shows_each_part_s_reward(stopped):
    result, store = stopped
    rollouts = store.list_rollouts(result.run_id)
    assert {rollout.mode for rollout in rollouts} >= {"train", "eval"}
    assert all(set(rollout.rewards) == PARTS for rollout in rollouts)
    for rollout in rollouts:
        assert rollout.score == rollout.rewards["low"] + 0.5 * rollout.rewards["lookup/format"]
    assert len({rollout.rewards["low"] for rollout in rollouts}) > 2
    assert any(rollout.disposition == "trained" for rollout in rollouts)
    scalars = store.read_scalars(result.run_id, mode="train")["train"]
    assert {f"reward/component/{name}" for name in PARTS} <= set(scalars)


def test_the_run_s_pin_has_the_parts_and_its_config_the_section(stopped):
    result, store = stopped
    record = store.get_run(result.run_id)
    assert record.environment["id"] == "composed"
    [pin] = store.list_pins(result.run_id)
    assert [name for name in pin.details["files"] if name.startswith("castform")] == [
        "castform-env-arith 0.1.0 (arith/add, arith/correct)",
        "castform-env-lettered 2.5 (lettered/below)",
        "castform-env-lookup 0.1.0 (lookup/format)",
    ]
    assert record.config["environment"]["rewards"][1] == {
        "id": "lookup/format", "args": {}, "name": "", "weight": 0.5, "fields": {}
    }  # fmt: skip


def test_resume_names_a_part_that_changed_and_goes_on_when_it_is_back(stopped, place):
    result, store = stopped
    file = place / "castform_env_lettered.py"
    file.write_text(PLUGIN + "# another byte\n")
    with pytest.raises(UsageError) as caught:
        asyncio.run(resume(result.run_id, store=store))
    lines = str(caught.value).splitlines()
    assert lines[1:] == ["  files: changed castform-env-lettered 2.5 (lettered/below)"]
    file.write_text(PLUGIN)
    again = asyncio.run(resume(result.run_id, store=store))
    assert (again.status, again.steps) == ("finished", 3)
    assert again.verdict is not None
    assert all(set(rollout.rewards) == PARTS for rollout in store.list_rollouts(result.run_id))


def test_rescore_takes_the_parts_from_the_run_and_keys_in_their_place(stopped, place, monkeypatch, capsys):
    result, _ = stopped
    monkeypatch.setenv("CASTFORM_HOME", str(place / "home"))
    assert main(["rescore", result.run_id, "--json", "--limit", "2"]) == 0
    same = json.loads(capsys.readouterr().out)
    assert same["environment_changes"] == []
    words = ["rescore", result.run_id, "--json", "--limit", "2", "-a", 'rewards={"arith/format" = 2.0}']
    assert main(words) == 0
    other = json.loads(capsys.readouterr().out)
    assert any(line.startswith("argument rewards: ") for line in other["environment_changes"])
    assert any(
        "castform-env-arith 0.1.0 (arith/add, arith/format)" in line for line in other["environment_changes"]
    )
