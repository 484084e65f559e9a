"""Many trials in one folder: resumed, apart from each other, never two at once."""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import asynccontextmanager

import pytest
from test_trial import SOLVING, Agent

from castform.errors import RunFailedError, UsageError
from castform.harness import load_harness
from castform.harness.contract import HarnessError
from castform.sandbox.contract import Limits
from castform_harbor.job import Job, hold_job, run_job
from castform_harbor.reference_agents import NopHarness, OracleHarness
from castform_harbor.task_config import Artifact
from castform_harbor.tasks import load_tasks
from castform_harbor.trial_types import TrialOptions


@pytest.fixture
def run_tasks(write_task, provider, tmp_path):
    async def run_all(
        harness=None,
        *,
        attempts=1,
        concurrency=4,
        model=None,
        sandbox="docker",
        settings=None,
        open_models=None,
        on_trial=lambda trial: None,
        **options,
    ):
        harness = harness or OracleHarness()
        job = Job(
            tasks=load_tasks(tmp_path / "tasks"),
            folder=tmp_path / "jobs" / "j",
            agent=harness.name,
            model=model,
            sandbox=sandbox,
            attempts=attempts,
            concurrency=concurrency,
            options=TrialOptions(host_env={}, **options),
            settings=settings or {},
        )
        return await run_job(
            job, harness=harness, provider=provider, open_models=open_models, on_trial=on_trial
        )

    return run_all


async def test_every_task_is_tried_as_often_as_asked(write_task, run_tasks, tmp_path):
    write_task(name="a", files=SOLVING)
    write_task(name="b", files=SOLVING)
    trials = await run_tasks(attempts=2)
    assert [(trial.name, trial.reward) for trial in trials] == [
        ("a__1", 1.0),
        ("a__2", 1.0),
        ("b__1", 1.0),
        ("b__2", 1.0),
    ]
    found = json.loads((tmp_path / "jobs/j/result.json").read_text())
    assert (found["n_total_trials"], found["stats"]["n_completed_trials"]) == (4, 4)
    assert found["finished_at"]


async def test_no_more_run_at_a_time_than_asked(write_task, run_tasks):
    for name in "abcd":
        write_task(name=name)
    running, most = 0, 0
    pair = asyncio.Barrier(2)  # a job that runs one at a time never gets past it

    class Counting(Agent):
        async def run(self, task, sandbox, endpoint):
            nonlocal running, most
            running += 1
            most = max(most, running)
            await pair.wait()
            running -= 1
            return await super().run(task, sandbox, endpoint)

    await run_tasks(Counting(), concurrency=2)
    assert most == 2


async def test_a_second_run_runs_only_what_has_no_reward(write_task, run_tasks, provider, tmp_path):
    """Zero is a reward; a result that is missing, empty or truncated is none."""
    for name in "abcdef":
        write_task(name=name, files=SOLVING)
    await run_tasks(NopHarness())
    job = tmp_path / "jobs" / "j"
    (job / "a__1" / "result.json").unlink()
    (job / "b__1" / "result.json").write_text("")
    (job / "c__1" / "result.json").write_text('{"verifier_result": {"rew')
    unscored = json.loads((job / "d__1" / "result.json").read_text())
    (job / "d__1" / "result.json").write_text(json.dumps({**unscored, "verifier_result": None}))
    (job / "f__1" / "result.json").write_text(json.dumps({**unscored, "verifier_result": [1]}))
    provider.boxes.clear()
    provider._folder = tmp_path / "again"
    trials = await run_tasks(NopHarness())
    assert [(trial.name, trial.kept, trial.reward) for trial in trials] == [
        ("a__1", False, 0.0),
        ("b__1", False, 0.0),
        ("c__1", False, 0.0),
        ("d__1", False, 0.0),
        ("e__1", True, 0.0),
        ("f__1", False, 0.0),
    ]
    assert len(provider.boxes) == 5
    assert sorted(path.name.partition("-")[0] for path in (job / "unscored").iterdir()) == [
        "a__1",
        "b__1",
        "c__1",
        "d__1",
        "f__1",
    ]


async def test_a_long_name_in_any_alphabet_makes_a_folder(write_task, run_tasks):
    name = "\U0001f600" * 60
    write_task(name=name, files=SOLVING)
    write_task(name=f"{name}2", files=SOLVING)
    trials = await run_tasks()
    assert [trial.reward for trial in trials] == [1.0, 1.0]
    assert len({trial.name for trial in trials}) == 2


async def test_a_job_where_none_can_be_is_an_error(write_task, run_tasks, tmp_path):
    write_task(files=SOLVING)
    (tmp_path / "jobs").write_text("a file")
    with pytest.raises(UsageError, match="cannot hold a job"):
        await run_tasks()


async def test_one_task_that_cannot_be_run_costs_the_others_nothing(write_task, run_tasks):
    write_task(name="good", files=SOLVING)
    write_task('[environment]\nos = "windows"', name="refused", files={"tests/test.bat": ""})
    write_task('[environment.env]\nA = "${NOT_SET}"', name="unset")
    write_task(name="unsolved", files={"tests/test.sh": SOLVING["tests/test.sh"]})
    trials = {trial.name: trial for trial in await run_tasks()}
    assert {name: trial.status for name, trial in trials.items()} == {
        "good__1": "ok",
        "refused__1": "refused",
        "unset__1": "refused",
        "unsolved__1": "refused",
    }
    assert trials["good__1"].reward == 1.0
    assert all(trial.rewards is None for name, trial in trials.items() if name != "good__1")


async def test_what_cannot_be_run_is_told_before_anything_starts(write_task, run_tasks):
    write_task(name="a", files=SOLVING)
    write_task('[environment]\nos = "windows"', name="b", files={"tests/test.bat": ""})
    told = []

    class Telling(Agent):
        async def run(self, task, sandbox, endpoint):
            told.append("the agent works")
            return await super().run(task, sandbox, endpoint)

    await run_tasks(Telling(), attempts=2, on_trial=lambda trial: told.append(trial.name))
    assert told[:3] == ["b__1", "b__2", "the agent works"]


async def test_a_model_is_made_ready_only_for_a_trial_to_run(write_task, run_tasks):
    folder = write_task('[environment]\nos = "windows"', name="a", files={"tests/test.bat": ""})
    opened = []

    @asynccontextmanager
    async def open_models():
        opened.append("opened")
        yield None

    async def run_once():
        return [trial.status for trial in await run_tasks(NopHarness(), open_models=open_models)]

    assert (await run_once(), opened) == (["refused"], [])
    (folder / "task.toml").write_text("")
    assert (await run_once(), opened) == (["ok"], ["opened"])
    assert (await run_once(), opened) == (["ok"], ["opened"])  # it has a reward


async def test_a_folder_that_cannot_be_used_costs_its_trial_alone(write_task, run_tasks, tmp_path):
    for name in "ab":
        write_task(name=name, files=SOLVING)
    (tmp_path / "jobs" / "j" / "a__1").mkdir(parents=True)
    (tmp_path / "jobs" / "j" / "unscored").write_text("in the way of what moves there")
    trials = await run_tasks()
    assert [(trial.status, trial.reward) for trial in trials] == [("infra_error", None), ("ok", 1.0)]


async def test_a_result_that_cannot_be_written_fails_the_job_after_its_trials(
    write_task, run_tasks, tmp_path
):
    for name in "ab":
        write_task(name=name, files=SOLVING)

    def block(trial):
        result = tmp_path / "jobs" / "j" / "result.json"
        if result.is_file():
            result.unlink()
            (result / "in the way").mkdir(parents=True)

    with pytest.raises(RunFailedError, match=r"result\.json cannot be written"):
        await run_tasks(concurrency=1, on_trial=block)
    assert {path.parent.name for path in (tmp_path / "jobs" / "j").glob("*__1/result.json")} == {
        "a__1",
        "b__1",
    }


async def test_a_task_that_changed_is_not_mixed_with_its_past(write_task, run_tasks):
    folder = write_task(name="a")
    await run_tasks(NopHarness())
    (folder / "instruction.md").write_text("Something else.\n")
    with pytest.raises(UsageError, match="have changed since"):
        await run_tasks(NopHarness())


async def test_another_agent_gets_another_job(write_task, run_tasks):
    write_task(name="a")
    await run_tasks(NopHarness())
    with pytest.raises(UsageError, match="trials of another agent or model: nop"):
        await run_tasks(Agent())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"sandbox": "bubblewrap"}, "another sandbox: docker"),
        ({"verifier": "fresh"}, "verifier = 'task', not 'fresh'"),
        ({"artifacts": (Artifact(source="/app"),)}, "artifacts = [], not"),
        ({"agent_env": {"A_KEY": "sesame-sesame"}}, "agent_env = [], not ['A_KEY']"),
        ({"limits": Limits(cpus=9.0)}, "limits = "),
        ({"settings": {"temperature": 0.5}}, "temperature = None, not 0.5"),
    ],
    ids=["sandbox", "verifier", "artifacts", "variables", "limits", "settings"],
)
async def test_what_is_run_otherwise_gets_another_job(write_task, run_tasks, tmp_path, change, said):
    write_task(name="a", files=SOLVING)
    await run_tasks(NopHarness())
    with pytest.raises(UsageError, match=re.escape(said)) as caught:
        await run_tasks(NopHarness(), **change)
    assert "sesame" not in str(caught.value) and "--job-name" in str(caught.value.hint)
    config = tmp_path / "jobs" / "j" / "config.json"
    document = json.loads(config.read_text())
    for part in ("castform_options", "castform_settings"):  # as a job has it that was begun before them
        del document[part]
    config.write_text(json.dumps(document))
    assert [trial.kept for trial in await run_tasks(NopHarness(), verify=False)] == [True]


@pytest.mark.parametrize("change", ["harness.toml", "program/run.sh"])
async def test_an_agent_that_changed_gets_another_job(write_task, run_tasks, tmp_path, change):
    """Its settings and the files that it uploads count; where its file lies, and comments in it, do not."""
    write_task(name="a")
    files = {
        "harness.toml": "[harness]\ncommand = 'true'\nupload = { '/opt/p' = 'program' }\n",
        "program/run.sh": "1",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    await run_tasks(load_harness(tmp_path / "harness.toml"))
    (tmp_path / "moved").mkdir()
    for name in files:
        (tmp_path / name.partition("/")[0]).rename(tmp_path / "moved" / name.partition("/")[0])
    file = tmp_path / "moved" / "harness.toml"
    file.write_text(f"# as before\n{file.read_text()}")
    assert [trial.kept for trial in await run_tasks(load_harness(file))] == [True]
    with (tmp_path / "moved" / change).open("a") as changed:
        changed.write("env = { A = 'b' }\n")
    with pytest.raises(UsageError, match="the agent as it was"):
        await run_tasks(load_harness(file))


async def test_two_processes_do_not_run_one_job(write_task, run_tasks, tmp_path):
    write_task(name="a")
    with hold_job(tmp_path / "jobs" / "j"), pytest.raises(UsageError, match="being run by another process"):
        await run_tasks()


async def test_a_job_that_is_cancelled_closes_every_box_and_keeps_what_it_had(
    write_task, run_tasks, provider, tmp_path
):
    write_task(name="a")
    write_task(name="b")
    write_task(name="c")
    waiting = asyncio.Event()

    class Slow(Agent):
        async def run(self, task, sandbox, endpoint):
            if len(self.seen) == 0:
                return await super().run(task, sandbox, endpoint)
            waiting.set()
            return await asyncio.get_running_loop().create_future()

    job = asyncio.ensure_future(run_tasks(Slow(), concurrency=1))
    await waiting.wait()
    job.cancel()
    with pytest.raises(asyncio.CancelledError):
        await job
    assert len(provider.boxes) == 2
    assert all(box.closed for box in provider.boxes)
    saved = {
        path.parent.name: json.loads(path.read_text())["castform"]["status"]
        for path in (tmp_path / "jobs" / "j").glob("*/result.json")
    }
    assert saved == {"a__1": "ok", "b__1": "cancelled"}
    result = json.loads((tmp_path / "jobs" / "j" / "result.json").read_text())
    counts = [
        result["stats"][f"n_{name}_trials"] for name in ("completed", "cancelled", "running", "pending")
    ]
    assert (counts, result["finished_at"]) == ([1, 1, 0, 1], None)


async def test_a_harness_that_cannot_be_set_up_leaves_no_reward_anywhere(write_task, run_tasks):
    write_task(name="a")
    trials = await run_tasks(Agent(setup_failure=HarnessError("no npm")))
    assert [(trial.status, trial.rewards, trial.error) for trial in trials] == [
        ("infra_error", None, "no npm")
    ]


async def test_each_phase_of_a_trial_is_told_as_it_begins(write_task, provider, tmp_path):
    write_task(name="a", files=SOLVING)
    told = []
    job = Job(tasks=load_tasks(tmp_path / "tasks"), folder=tmp_path / "jobs" / "j", agent="oracle")
    await run_job(
        job,
        harness=OracleHarness(),
        provider=provider,
        on_phase=lambda name, phase: told.append((name, phase)),
    )
    assert [name for name, _ in told] == ["a__1"] * 4
    assert [
        words in phase for words, (_, phase) in zip(("box", "set up", "works", "tests"), told, strict=True)
    ] == [True] * 4
