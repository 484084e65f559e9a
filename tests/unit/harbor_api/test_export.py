"""Examples become tasks that score as the environment does, or are refused with a reason."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tomllib

import pytest

from castform.cli.main import main
from castform.errors import UsageError
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


def test_tasks_share_the_scorers_modules_on_disk(exported):
    one, two = (task / "tests" / "lib" / "benchmax" / "__init__.py" for task in exported.tasks[:2])
    assert one.stat().st_ino == two.stat().st_ino


@pytest.mark.parametrize(
    "change, reason",
    [
        ({"more": "tools = (print,)"}, "tools are functions"),
        ({"more": "async def compute_group_rewards(self, rollouts): return {}"}, "beside each other"),
        ({"more": "async def run_rollout(self, request): ..."}, "run_rollout of its own"),
        ({"more": "def gold(self, example): return None"}, "no example"),
        ({"prompt": '[{"role": "user", "content": [{"type": "text", "text": "hi"}]}]'}, "not plain text"),
        ({"hooks": "import os; os.environ['MY_JUDGE_KEY']"}, "away from it"),
    ],
    ids=["tools", "group", "own-rollouts", "no-gold", "images", "needs-a-key"],
)
async def test_what_cannot_be_exported_is_refused_with_the_reason(tmp_path, monkeypatch, change, reason):
    monkeypatch.setenv("MY_JUDGE_KEY", "x")
    loaded = load_environment(str(write_environment(tmp_path, **change)))
    with pytest.raises(UsageError, match=reason):
        await export_environment(loaded, {}, tmp_path / "tasks")
    assert not (tmp_path / "tasks").exists()


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
