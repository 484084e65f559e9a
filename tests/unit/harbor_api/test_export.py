"""Examples become tasks that score as the environment does, or are refused with a reason."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tomllib

import pytest

from castform.cli.main import main
from castform.errors import RunFailedError, UsageError
from castform.plugins.environments import load_environment
from castform_harbor.export import ExportOptions, export_environment
from castform_harbor.task import load_task

ENVIRONMENT = '''
"""Say the word."""
from benchmax.envs import BaseEnv, Dataset, Example
from benchmax.rewards import extract_completion_text

HOOKS

class Say(BaseEnv):
    max_turns = 1
    reward_weights = {"right": 2.0, "note": 0.0}
    MORE

    async def create_dataset(self, split, base_dir, *, max_examples=None):
        words = ["one", "two", "three"] if split == "train" else ["four"]
        rows = [Example(w, {"prompt_messages": PROMPT, "ground_truth": w}) for w in words]
        return Dataset(rows[:max_examples])

    async def compute_reward(self, rollout):
        said = extract_completion_text(rollout.messages)
        return {"right": 0.5 * (said == rollout.example_args["ground_truth"]), "polite": 0.1, "note": 7.0}
'''


def write_environment(folder, *, hooks="", more="", prompt='[{"role": "user", "content": f"Say {w}."}]'):
    text = ENVIRONMENT.replace("HOOKS", hooks).replace("MORE", more).replace("PROMPT", prompt)
    file = folder / "say.py"
    file.write_text(text)
    return file


def score(task, folder, answer):
    """Run the exported scorer with nothing but what the task carries; return reward.json."""
    file, output = folder / "answer.txt", folder / "reward.json"
    output.unlink(missing_ok=True)
    file.unlink(missing_ok=True)
    if answer is not None:
        file.write_text(answer)
    words = [sys.executable, "-I", "-S", task / "tests" / "score.py", file, output]
    done = subprocess.run(words, capture_output=True, text=True)
    return json.loads(output.read_text()) if output.exists() else done.stderr


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("export")
    loaded = load_environment(str(write_environment(folder)))
    return asyncio.run(export_environment(loaded, {}, folder / "tasks", ExportOptions(image="my/image")))


def test_an_example_is_a_whole_task(exported):
    assert len(exported.tasks) == 3 and exported.without_solution == 0
    task = load_task(exported.tasks[0])
    assert (
        task.instruction.startswith("Say one.")
        and "/app/answer.txt" in task.instruction
        and task.warnings == ()
    )
    assert (task.environment / "Dockerfile").read_text() == "FROM my/image\nWORKDIR /app\n"
    document = tomllib.loads((task.folder / "task.toml").read_text())
    assert document["artifacts"] == ["/app/answer.txt"] and document["metadata"]["example"] == "one"
    assert (task.folder / "solution" / "answer.txt").read_text() == "one"


def test_the_scorer_gives_one_for_the_right_answer_and_zero_for_none(exported, tmp_path):
    first, second = exported.tasks[:2]
    assert score(first, tmp_path, "one\n") == {"right": 0.5, "polite": 0.1, "note": 7.0, "reward": 1.0}
    assert score(first, tmp_path, None)["reward"] == 0.0
    assert score(first, tmp_path, "two")["reward"] == 0.0
    assert score(second, tmp_path, "two")["reward"] == 1.0


def test_a_scorer_that_fails_leaves_no_reward(exported, tmp_path):
    example = exported.tasks[2] / "tests" / "example.json"
    whole = example.read_text()
    example.write_text(json.dumps({**json.loads(whole), "python": [2, 7]}))
    assert "exported for Python [2, 7]" in score(exported.tasks[2], tmp_path, "three")
    example.write_text(whole)


async def test_any_examples_id_is_written_down_and_one_without_an_answer_is_scored_too(tmp_path):
    """An id is any text; where no answer is known, what is paid for nothing is 0 there too."""
    more = """
    def gold(self, example):
        return None if example.id == "two" else example.payload["ground_truth"] + "\\n"
    """
    file = write_environment(tmp_path, more=more)
    text = file.read_text().replace('"one", ', r'"one \U0001f600 \x7f\"", ')
    text = text.replace("async def compute_reward", "def compute_reward")  # a plain hook is harmless
    file.write_text(
        text.replace('"polite": 0.1', '"polite": 3.0 * (rollout.example_args["ground_truth"] == "two")')
    )
    result = await export_environment(load_environment(str(file)), {}, tmp_path / "tasks")
    named = [tomllib.loads((task / "task.toml").read_text())["metadata"]["example"] for task in result.tasks]
    assert named == ['one \U0001f600 \x7f"', "two", "three"] and result.without_solution == 1
    found = [score(task, tmp_path, "two")["reward"] for task in result.tasks]
    assert found[1] > 0 and found[2] == 0.0
    assert score(result.tasks[1], tmp_path, None)["reward"] == 0.0


async def test_an_export_whose_scorer_does_not_work_leaves_nothing(tmp_path):
    """It scores in the process that finds out what it imports, and not with what it imported there."""
    hooks = "import pathlib; assert '.scorer' not in __file__ and 'tests' not in pathlib.Path(__file__).parts"
    loaded = load_environment(str(write_environment(tmp_path, hooks=hooks)))
    with pytest.raises(RunFailedError, match="exported scorer gives None"):
        await export_environment(loaded, {}, tmp_path / "tasks")
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "__pycache__") == ["say.py"]


def test_tasks_share_the_scorers_modules_on_disk(exported):
    one, two = (task / "tests" / "lib" / "benchmax" / "__init__.py" for task in exported.tasks[:2])
    assert one.stat().st_ino == two.stat().st_ino


@pytest.mark.parametrize(
    "change, reason",
    [
        ({"more": "tools = (print,)"}, "tools are functions"),
        ({"more": "async def compute_group_rewards(self, rollouts): return {}"}, "beside each other"),
        ({"more": "async def run_rollout(self, request): ..."}, "run_rollout of its own"),
        ({"more": "async def run_group(self, requests): ..."}, "run_group of its own"),
        ({"more": "async def next_messages(self, rollout): return None"}, "talks on after a reply"),
        ({"more": "def gold(self, example): return None"}, "no example"),
        ({"prompt": '[{"role": "user", "content": [{"type": "text", "text": "hi"}]}]'}, "not plain text"),
        ({"hooks": "import os; os.environ['MY_JUDGE_KEY']"}, "away from it"),
    ],
    ids=["tools", "group", "own-rollouts", "own-groups", "turns", "no-gold", "images", "needs-a-key"],
)
async def test_what_cannot_be_exported_is_refused_with_the_reason(tmp_path, monkeypatch, change, reason):
    monkeypatch.setenv("MY_JUDGE_KEY", "x")
    loaded = load_environment(str(write_environment(tmp_path, **change)))
    with pytest.raises(UsageError, match=reason):
        await export_environment(loaded, {}, tmp_path / "tasks")
    assert not (tmp_path / "tasks").exists()


@pytest.mark.parametrize(
    ("folder", "image", "reason"),
    [
        ("/dev/null", "python:3.11-slim", "/dev/null is no folder"),
        ("/proc/tasks", "python:3.11-slim", "/proc/tasks cannot be made"),
        ("tasks", "python\nRUN id", "is no image's name"),
    ],
    ids=["file", "unwritable", "image"],
)
def test_a_place_or_an_image_that_is_none_is_told_in_words(
    tmp_path, monkeypatch, capsys, folder, image, reason
):
    monkeypatch.chdir(tmp_path)
    assert main(["harbor", "export", "arith", folder, "--limit", "1", "--image", image]) == 2
    assert reason in capsys.readouterr().err and not (tmp_path / "tasks").exists()


def test_the_command_writes_a_plugins_examples_with_its_arguments(tmp_path, capsys):
    words = [
        "harbor",
        "export",
        "arith/mixed",
        str(tmp_path / "tasks"),
        "--limit",
        "1",
        "-a",
        "level=3",
        "--json",
    ]
    assert main(words) == 0
    told = json.loads(capsys.readouterr().out)
    task = tmp_path / "tasks" / told["tasks"][0]
    assert json.loads((task / "tests" / "example.json").read_text())["environment"]["args"] == {"level": 3}
    assert main(words) == 2 and "is not empty" in capsys.readouterr().err
