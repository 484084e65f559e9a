"""The plugins of the previous release, as they were, against the code as it is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

PREVIOUS = Path(__file__).parents[1] / "plugins_previous"
RELEASE = "0.1.0"

# Run in a process of its own: the plugins of today are imported in this one under the same names.
SCRIPT = """
import asyncio, json, pathlib, sys, warnings
from castform.plugins import *
from castform.testing import FakeModel, Reply, ToolUse

warnings.simplefilter("error")
registry = load_registry(sys.path[:2])  # the copies, wherever this script lies
told = {"failures": {name: str(f) for name, f in registry.errors.items()}}
told["names"] = registry.names()
plugins = {name: registry.load(name) for name in ("arith", "lookup", "journal")}
told["files"] = [sys.modules[p.entry.module].__file__ for p in plugins.values()]
told["versions"] = [p.entry.version for p in plugins.values()]
told["hooks"] = {name: p.list_hooks() for name, p in plugins.items()}
told["environments"] = {name: list(p.specs(EnvironmentSpec)) for name, p in plugins.items()}


async def run(id, script):
    environment = load_environment(id, {"seed": 3}, registry=registry).environment
    examples = await environment.create_dataset("train", pathlib.Path(), max_examples=2)
    async with FakeModel(script(environment, examples[0])) as model:
        group = await model.run_group(environment, examples[0], size=2)
    await environment.aclose()
    return {
        "ids": [example.id for example in examples],
        "rewards": [dict(rollout.rewards) for rollout in group.rollouts],
        "reasons": [rollout.termination_reason for rollout in group.rollouts],
        "calls": [len(rollout.calls) for rollout in group.rollouts],
    }


def answer(environment, example):
    gold = environment.gold(example)
    return lambda request: gold if request.session_id.endswith("-0") else "no idea"


def look_up(environment, example):
    gold, cells = environment.gold(example), example.payload["cells"]

    def script(request):
        if request.session_id.endswith("-0") and request.index == 0:
            calls = [{"place": place, "column": column} for place, column in cells]
            return Reply(tool_calls=[ToolUse(name="get", arguments=call) for call in calls])
        return gold

    return script


told["arith"] = asyncio.run(run("arith", answer))
told["lookup"] = asyncio.run(run("lookup", look_up))

folder = pathlib.Path(sys.argv[1])
info = RunInfo(run_id="r1", run_dir=folder)
reports = []
watchers = load_watchers(["journal"], registry=registry, report=reports.append)
events = [
    RunStarted(steps=2),
    GroupScored(step=1, group_id="g", example_id="e", scores=(1.0, None)),
    StepEnded(step=1, scalars={"loss": 0.5}),
    CheckpointSaved(step=1, path=folder / "c"),
    EvalEnded(step=1, scalars={"eval/score": 0.25}),
    RunEnded(status="finished", step=2),
]
for event in events:
    watchers.notify(info, event)
told["reports"] = reports
told["journal"] = [json.loads(line)["event"] for line in (folder / "journal.jsonl").read_text().splitlines()]
print(json.dumps(told))
"""


def install(folder: Path, site: Path) -> None:
    """Lay a distribution out as pip does, without building it."""
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    (package,) = (p for p in folder.iterdir() if (p / "__init__.py").is_file())
    (site / package.name).symlink_to(package)
    info = site / f"{package.name}-{project['version']}.dist-info"
    info.mkdir()
    lines = [f"{key}: {project[key.lower()]}" for key in ("Name", "Version")]
    lines += [f"Summary: {project['description']}"]
    lines += [f"Requires-Dist: {text}" for text in project["dependencies"]]
    (info / "METADATA").write_text("\n".join(["Metadata-Version: 2.4", *lines]) + "\n")
    points = [f"{name} = {module}" for name, module in project["entry-points"]["castform"].items()]
    (info / "entry_points.txt").write_text("\n".join(["[castform]", *points]) + "\n")


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the three plugins did, in one process."""
    site, run_dir = tmp_path_factory.mktemp("site"), tmp_path_factory.mktemp("run")
    for folder in sorted(PREVIOUS.glob("*/pyproject.toml")):
        install(folder.parent, site)
    path = os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(run_dir)],
        env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
        cwd=site,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_they_are_the_previous_release_and_load_without_a_warning(told: dict[str, Any]) -> None:
    assert told["failures"] == {}
    assert told["versions"] == [RELEASE] * 3
    assert {"arith", "lookup", "journal"} <= set(told["names"])
    assert not [file for file in told["files"] if "/plugins/castform-" in str(Path(file).resolve())]
    assert len([file for file in told["files"] if "plugins_previous" in str(Path(file).resolve())]) == 3


def test_they_register_what_they_did(told: dict[str, Any]) -> None:
    assert told["environments"] == {
        "arith": ["default", "add", "add24", "add2", "subtract", "mixed"],
        "lookup": ["places"],
        "journal": [],
    }
    assert told["hooks"]["arith"] == told["hooks"]["lookup"] == ["register_environments"]
    assert len(told["hooks"]["journal"]) == 7 and "register_commands" in told["hooks"]["journal"]


def test_a_group_in_arith_is_scored_as_it_was(told: dict[str, Any]) -> None:
    assert told["arith"] == {
        "ids": ["9+1", "8+5"],
        "rewards": [{"format": 1.0, "correct": 1.0}, {"format": 0.0, "correct": 0.0}],
        "reasons": ["finished", "finished"],
        "calls": [1, 1],
    }


def test_a_group_with_tools_in_lookup_is_scored_as_it_was(told: dict[str, Any]) -> None:
    found = told["lookup"]
    assert found["rewards"] == [
        {"correct": 1.0, "format": 1.0, "used_tool": 1.0},
        {"correct": 1.0, "format": 1.0, "used_tool": 0.0},
    ]
    assert (found["reasons"], found["calls"]) == (["finished", "finished"], [2, 1])


def test_a_watcher_hears_of_everything(told: dict[str, Any]) -> None:
    assert told["reports"] == []
    assert told["journal"] == [
        "run_start",
        "group_scored",
        "step_end",
        "checkpoint_saved",
        "eval_end",
        "run_end",
    ]
