"""The words of the commands: env.* settings, trajectory files, the real harbor that is not there."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from castform.cli.main import main
from castform.config import load_config
from castform.environments import load_environment, load_examples
from castform.errors import UsageError
from castform_harbor.atif import parse_atif, write_atif
from castform_harbor.compare import Compared, choose_tasks, find_host_values
from castform_harbor.tasks import load_tasks

TASKS = Path(__file__).parents[2] / "harbor" / "tasks"


def test_env_is_short_for_an_argument_of_the_environment():
    config = load_config(
        None, ["env.tasks=./tasks", "env.harness_args.max_turns=3"], environment__id="harbor"
    )
    assert config.environment.args == {"tasks": "./tasks", "harness_args": {"max_turns": 3}}


def test_env_is_short_for_a_key_of_a_composed_environment_too(tmp_path):
    file = tmp_path / "mix.toml"
    file.write_text('[environment]\ndataset = "arith/add"\nrewards = ["arith/correct"]\n')
    config = load_config(None, ["env.max_turns=2"], environment__id=str(file))
    assert config.environment.args == {"max_turns": 2}


@pytest.mark.parametrize(
    ("place", "said"),
    [("two", "is no folder of Harbor tasks"), ("empty", "holds no Harbor task"), ("one", "at least two")],
)
async def test_tasks_that_cannot_be_had_are_told_in_words_without_class_names(
    tmp_path, monkeypatch, place, said
):
    monkeypatch.setenv("CASTFORM_HOME", str(tmp_path / "home"))
    (tmp_path / "empty").mkdir()
    shutil.copytree(TASKS / "shared-default", tmp_path / "one")
    loaded = load_environment("harbor", {"tasks": str(tmp_path / place)})
    with pytest.raises(UsageError, match=said) as caught:
        await load_examples(loaded.environment, "eval", loaded.base_dir)
    assert "Error" not in str(caught.value)
    await loaded.environment.aclose()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (["env.tasks=one", "env.dataset=x"], "env.dataset is 'x', which is for a registry.json"),
        (["env.tasks=no.json"], "no.json is no registry of Harbor datasets"),
    ],
    ids=["dataset", "registry"],
)
def test_settings_that_name_no_tasks_are_usage_and_no_fault_of_the_plugin(settings, said, capsys):
    words = [word for setting in settings for word in ("--set", setting)]
    assert main(["validate", "harbor", *words]) == 2
    told = capsys.readouterr().err
    assert said in told and "Error:" not in told and "plugin" not in told


def document(**changes):
    step = {"step_id": 1, "source": "user", "message": "hi"}
    reply = {
        "step_id": 2,
        "source": "agent",
        "message": "ho",
        "metrics": {"completion_token_ids": [1], "logprobs": [-1.0]},
    }
    return {"agent": {"name": "a", "version": "1"}, "steps": [step, reply], **changes}


def test_files_are_checked_and_a_bad_one_is_named(tmp_path, capsys):
    write_atif(parse_atif(document(), where="it"), tmp_path / "good.json")
    (tmp_path / "bad.json").write_text(json.dumps(document(unknown=1)))
    assert main(["harbor", "trajectory", "--check", str(tmp_path / "good.json")]) == 0
    capsys.readouterr()
    files = [str(tmp_path / name) for name in ("good.json", "bad.json")]
    assert main(["harbor", "trajectory", "--check", *files, "--json"]) == 1
    good, bad = json.loads(capsys.readouterr().out)
    assert (good["steps"], good["calls"], good["calls_with_tokens"]) == (2, 1, 1)
    assert "unknown" in bad["problem"]


@pytest.mark.parametrize("words", [[], ["run", "--check", "f"], ["run"]])
def test_a_trajectory_command_without_its_words_is_usage(words, capsys):
    assert main(["harbor", "trajectory", *words]) == 2


def test_comparing_without_the_real_harbor_says_how_to_get_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("CASTFORM_HARBOR", str(tmp_path))
    assert main(["harbor", "compare", str(tmp_path)]) == 3
    assert "castform harbor install" in capsys.readouterr().err


def test_comparing_a_task_that_is_not_there_says_which_are(tmp_path, monkeypatch, capsys):
    for name in ("harbor", "python"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("CASTFORM_HARBOR", str(tmp_path / "harbor"))
    assert main(["harbor", "compare", str(TASKS), "--task", "work*", "--task", "harbour"]) == 2
    told = capsys.readouterr().err
    assert "no task is called 'harbour'" in told and "workdir" in told


def test_the_real_harbor_gets_what_a_task_takes_from_this_machine():
    tasks = choose_tasks(load_tasks(TASKS), ["separate-*"])
    assert len(tasks) == 4
    host = {"CASTFORM_FIXTURE_EXPECTED": "gull", "SECRET": "s"}
    assert find_host_values(tasks, host) == {"CASTFORM_FIXTURE_EXPECTED": "gull"}
    assert find_host_values(tasks, {}) == {}


@pytest.mark.parametrize(
    ("own", "real", "verdict"),
    [
        ({"reward": 1.0}, {"reward": 1}, "same"),
        ({"reward": 1.0}, {"reward": 1, "more": 0}, "different"),
        ({"reward": 0.0}, {"reward": 1}, "different"),
        ({"reward": 0.0}, None, "different"),
        (None, {"reward": 0}, "different"),
        (None, None, "neither"),
    ],
)
def test_no_reward_on_either_side_is_not_called_the_same(own, real, verdict):
    row = Compared(task="t", agent="nop", own=own, real=real)
    assert (row.verdict, row.is_same, row.as_dict()["verdict"]) == (verdict, verdict == "same", verdict)
