"""`castform train` checks everything before it starts anything."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from castform.cli.main import main
from castform_trainer.testing import make_tiny_model

sys.path.insert(0, str(Path(__file__).parents[2] / "integration"))
from train_runs import ENVIRONMENT, write_environment


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return make_tiny_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("CASTFORM_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_a_dry_run_shows_the_plan_and_leaves_no_trace(tmp_path, home, model, capsys):
    code = main(
        ["train", str(write_environment(tmp_path)), "-m", str(model), "--steps", "7", "--dry-run", "--json"]
    )
    plan = json.loads(capsys.readouterr().out)
    assert code == 0
    assert (plan["steps"], plan["train_examples"], plan["eval_examples"]) == (7, 12, 6)
    assert plan["rollouts_per_step"] == 64
    assert not home.exists()


def test_a_dry_run_is_readable(tmp_path, model, capsys):
    assert main(["train", str(write_environment(tmp_path)), "-m", str(model), "--dry-run"]) == 0
    assert "12 to train on, 6 held out" in capsys.readouterr().out


def test_three_wrong_settings_are_three_faults_in_one_error(tmp_path, model, capsys):
    settings = ["rl.group_sice=8", "run.steps=0", "optimizer.learning_rate=fast"]
    words = [word for setting in settings for word in ("--set", setting)]
    code = main(["train", str(write_environment(tmp_path)), "-m", str(model), *words])
    error = capsys.readouterr().err
    assert code == 2
    assert "3 wrong settings" in error
    assert all(name in error for name in ("group_sice", "run.steps", "learning_rate"))


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["ENV", "-m", "no-such-model"], 3, "no model called"),
        (["ENV"], 2, "no model given"),
        (["-m", "MODEL"], 2, "no environment given"),
        (["ENV", "-m", "MODEL", "--set", "engine.name=warp"], 2, "no engine called"),
        (["nowhere.py", "-m", "MODEL"], 2, "nowhere.py"),
        (["--resume", "abc", "--seed", "3"], 2, "does not take --seed"),
        (["--resume", "abc", "-a", "seed=3"], 2, "does not take --arg"),
        (["--resume", "abc"], 2, "abc"),
        (["ENV", "-m", "MODEL", "--output", "MODEL"], 2, "exists already"),
    ],
)
def test_what_is_wrong_is_said_before_anything_starts(tmp_path, model, capsys, words, code, text):
    places = {"ENV": str(write_environment(tmp_path)), "MODEL": str(model)}
    assert main(["train", *(places.get(word, word) for word in words)]) == code
    error = capsys.readouterr().err
    assert text in error and "Traceback" not in error


def test_a_broken_dataset_line_is_named_with_its_file(tmp_path, model, capsys):
    (tmp_path / "rows.jsonl").write_text('{"q": "a"}\n{"q": \n')
    loader = """
    async def create_dataset(self, split, base_dir, *, max_examples=None):
        from benchmax.envs import JsonlDataset
        return JsonlDataset(base_dir / "rows.jsonl", row_to_example=lambda row: Example(id="x", payload=row))
"""
    start, end = ENVIRONMENT.index("    async def create_dataset"), ENVIRONMENT.index("    async def compute")
    source = ENVIRONMENT[:start] + loader + "\n" + ENVIRONMENT[end:]
    assert main(["train", str(write_environment(tmp_path, source)), "-m", str(model)]) == 2
    assert "rows.jsonl:2" in capsys.readouterr().err
