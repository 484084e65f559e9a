"""The real harbor as a process of its own: what is believed, what is salvaged, how it is stopped."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from pathlib import Path

import pytest

from castform.errors import MissingError, UsageError
from castform_harbor import real_harbor_run
from castform_harbor.real_harbor import RealHarbor, find_real_harbor
from castform_harbor.real_harbor_run import RealJob, make_environment, run_real_harbor

FAKE = Path(__file__).with_name("fake_harbor.py")
SCORED = {"verifier_result": {"rewards": {"reward": 1.0}}}


@pytest.fixture
def harbor(tmp_path):
    """A `harbor` program that does to each task what the task's fake.json says, and always exits 1."""
    command = tmp_path / "bin" / "harbor"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -S {FAKE} "$@"\n')
    command.chmod(0o755)
    return RealHarbor(command=command, python=Path(sys.executable))


@pytest.fixture
def make_task(tmp_path):
    def make(name, **script):
        folder = tmp_path / "tasks" / name
        for part in ("tests", "environment"):
            (folder / part).mkdir(parents=True)
        (folder / "task.toml").write_text("")
        (folder / "instruction.md").write_text(f"Do {name}.\n")
        (folder / "environment" / "Dockerfile").write_text("FROM scratch\n")
        (folder / "tests" / "test.sh").write_text("")
        (folder / "fake.json").write_text(json.dumps(script))
        return folder

    return make


def wait_for(file):
    """Poll until a process has written to a file."""
    while not file.exists() or not file.read_text():
        time.sleep(0.01)


def is_there(path):
    return Path(path).exists()


def failure(name, message=""):
    return {"exception_type": name, "exception_message": message}


async def test_each_tasks_result_counts_and_not_the_exit_code(harbor, make_task, tmp_path):
    good = make_task("good", document=SCORED)
    bad = make_task("bad", document={"exception_info": failure("VerifierTimeoutError", "slow"), **SCORED})
    late = make_task("late", document={"exception_info": failure("AgentTimeoutError"), **SCORED})
    found = await run_real_harbor(RealJob(tasks=[good, bad, late]), tmp_path / "out", harbor=harbor)
    assert [trial.task for trial in found] == [good, bad, late]
    assert [trial.rewards for trial in found] == [{"reward": 1.0}, None, {"reward": 1.0}]
    assert found[1].exception_type == "VerifierTimeoutError" and found[1].exception_message == "slow"


async def test_an_exception_of_a_step_counts_like_the_trials_own(harbor, make_task, tmp_path):
    steps = [{"exception_info": failure("AgentTimeoutError")}, {"exception_info": failure("Unheard", "of")}]
    task = make_task("steps", document={"exception_info": None, "step_results": steps, **SCORED})
    (found,) = await run_real_harbor(RealJob(tasks=[task]), tmp_path / "out", harbor=harbor)
    assert (found.rewards, found.exception_type, found.exception_message) == (None, "Unheard", "of")


@pytest.mark.parametrize(
    "script, problem",
    [
        ({}, "missing"),
        ({"text": ""}, "empty"),
        ({"text": '{"verifier_result": {"rew'}, "cut short"),
        ({"text": "[]"}, "no object"),
        ({"document": {"verifier_result": {"rewards": {"reward": "1"}}}}, "rewards that are none"),
        ({"document": {"verifier_result": {"rewards": [1]}}}, "rewards that are none"),
    ],
    ids=["missing", "empty", "cut", "list", "text", "rewards"],
)
async def test_a_result_that_is_not_whole_is_infrastructure_and_no_zero(
    harbor, make_task, tmp_path, script, problem
):
    (found,) = await run_real_harbor(
        RealJob(tasks=[make_task("t", **script)]), tmp_path / "out", harbor=harbor
    )
    assert problem in found.problem and found.rewards is None and not found.is_finished


async def test_a_task_that_is_not_whole_never_reaches_harbor(harbor, make_task, tmp_path):
    good, broken = make_task("good", document=SCORED), make_task("broken", document=SCORED)
    (broken / "instruction.md").unlink()
    found = await run_real_harbor(RealJob(tasks=[broken, good]), tmp_path / "out", harbor=harbor)
    assert "instruction.md" in found[0].problem and found[1].rewards == {"reward": 1.0}


async def test_a_task_that_lacks_a_variable_never_reaches_harbor_which_it_would_end(
    harbor, make_task, tmp_path
):
    good, lacks = make_task("good", document=SCORED), make_task("lacks", document=SCORED)
    for task, text in ((good, "${HERE_NOT:-x}"), (lacks, "${HERE_NOT}")):
        (task / "task.toml").write_text(
            f'[[verifier.collect]]\ncommand = "true"\n[verifier.env]\nA = "{text}"\n'
        )
    found = await run_real_harbor(RealJob(tasks=[lacks, good]), tmp_path / "out", harbor=harbor)
    assert "takes HERE_NOT" in found[0].problem and found[1].rewards == {"reward": 1.0}
    given = RealJob(tasks=[lacks], env={"HERE_NOT": "1"})
    (found,) = await run_real_harbor(given, tmp_path / "out", harbor=harbor)
    assert found.rewards == {"reward": 1.0}


async def test_a_task_that_ends_its_batch_costs_its_siblings_nothing(harbor, make_task, tmp_path):
    tasks = [
        make_task("one", document=SCORED),
        make_task("poison", poison=True),
        make_task("two", document=SCORED),
    ]
    found = await run_real_harbor(RealJob(tasks=tasks), tmp_path / "out", harbor=harbor)
    assert [trial.rewards for trial in found] == [{"reward": 1.0}, None, {"reward": 1.0}]
    assert found[1].exception_type == "ValueError"


async def test_the_only_sibling_of_a_task_that_ends_its_batch_is_run_again_too(harbor, make_task, tmp_path):
    tasks = [make_task("one", document=SCORED), make_task("poison", poison=True)]
    found = await run_real_harbor(RealJob(tasks=tasks), tmp_path / "out", harbor=harbor)
    assert found[0].rewards == {"reward": 1.0}


async def test_a_limit_in_time_is_the_whole_jobs_with_what_is_run_again(harbor, make_task, tmp_path):
    said = tmp_path / "said"
    tasks = [make_task("broken", text=""), make_task("hangs", hangs=str(said))]
    began = time.monotonic()
    job = RealJob(tasks=tasks, timeout_seconds=1.5)
    found = await run_real_harbor(job, tmp_path / "out", harbor=harbor)
    assert "empty" in found[0].problem and time.monotonic() - began < 10
    assert len(list((tmp_path / "out").rglob("seen.json"))) == 1


async def test_a_job_that_takes_too_long_gets_one_signal_and_keeps_what_was_finished(
    harbor, make_task, tmp_path
):
    said = tmp_path / "said"
    tasks = [make_task("done", document=SCORED), make_task("hangs", hangs=str(said))]
    job = RealJob(tasks=tasks, timeout_seconds=1.5)
    found = await run_real_harbor(job, tmp_path / "out", harbor=harbor)
    assert found[0].rewards == {"reward": 1.0} and found[1].exception_type == "CancelledError"
    assert said.read_text() == "terminated 1"


async def test_one_that_ignores_the_signal_is_killed(harbor, make_task, tmp_path, monkeypatch):
    monkeypatch.setattr(real_harbor_run, "STOP_GRACE_SECONDS", 0.2)
    said = tmp_path / "said"
    task = make_task("hangs", hangs=str(said), stubborn=True)
    (found,) = await run_real_harbor(
        RealJob(tasks=[task], timeout_seconds=1), tmp_path / "out", harbor=harbor
    )
    assert "missing" in found.problem
    with pytest.raises(ProcessLookupError):
        os.kill(int(said.read_text()), 0)


async def test_cancelled_it_ends_harbor_before_it_returns(harbor, make_task, tmp_path):
    said = tmp_path / "said"
    task = make_task("hangs", hangs=str(said))
    running = asyncio.ensure_future(run_real_harbor(RealJob(tasks=[task]), tmp_path / "out", harbor=harbor))
    await asyncio.to_thread(wait_for, said)
    for _ in range(3):  # whoever stops it may lose patience
        running.cancel()
        await asyncio.wait([running], timeout=0.05)
    with pytest.raises(asyncio.CancelledError):
        await running
    assert said.read_text() == "terminated 1"


async def test_keys_are_on_no_command_line_and_calls_share_no_folder(
    harbor, make_task, tmp_path, monkeypatch
):
    monkeypatch.setenv("MY_OWN_SECRET", "host-secret")
    task = make_task("t", document=SCORED)
    agent = {"name": "terminus-2", "env": {"OPENAI_API_KEY": "agent-secret"}}
    job = RealJob(tasks=[task], agent=agent, env={"SERVICE_KEY": "service-secret"})
    await asyncio.gather(*(run_real_harbor(job, tmp_path / "out", harbor=harbor) for _ in range(2)))
    seen = [json.loads(path.read_text()) for path in (tmp_path / "out").rglob("seen.json")]
    assert len(seen) == 2
    for call in seen:
        assert "secret" not in json.dumps(call["argv"]) and "--yes" in call["argv"] and call["stdin"] == ""
        assert call["agents"][0]["env"]["OPENAI_API_KEY"] == "agent-secret"
        assert call["env"]["SERVICE_KEY"] == "service-secret" and call["env"]["HARBOR_TELEMETRY"] == "off"
        assert "MY_OWN_SECRET" not in call["env"]
        assert not is_there(call["argv"][2])
    assert "secret" not in repr(job)
    assert not [
        path
        for path in (tmp_path / "out").rglob("*")
        if path.is_file() and path.name != "seen.json" and "agent-secret" in path.read_text()
    ]


def test_the_process_sees_what_it_needs_and_little_else():
    env = make_environment(
        RealJob(tasks=[]), "label", {"PATH": "/bin", "AWS_SECRET_ACCESS_KEY": "x", "DOCKER_HOST": "d"}
    )
    assert env["PATH"] == "/bin" and env["DOCKER_HOST"] == "d" and "AWS_SECRET_ACCESS_KEY" not in env
    assert (
        env["LITELLM_LOCAL_MODEL_COST_MAP"] == "True"
        and Path(env["PYTHONPATH"], "castform_docker.py").is_file()
    )


async def test_no_tasks_and_no_harbor_are_said_before_anything_runs(tmp_path, monkeypatch):
    with pytest.raises(UsageError, match="no tasks"):
        await run_real_harbor(RealJob(tasks=[]), tmp_path)
    monkeypatch.setenv("CASTFORM_HARBOR", str(tmp_path))
    with pytest.raises(MissingError, match="has none") as caught:
        find_real_harbor()
    assert "castform harbor install" in caught.value.hint
