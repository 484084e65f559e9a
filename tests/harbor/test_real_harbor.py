"""The same tasks by castform's runner and by the real harbor; our ATIF by its models."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from random_tasks import write_random_task

from castform.calls import ModelCall
from castform_harbor.atif_calls import make_trajectory
from castform_harbor.compare import compare_runners
from castform_harbor.job import Job, run_job
from castform_harbor.real_harbor import make_real_harbor
from castform_harbor.real_harbor_run import RealJob, remove_containers, run_real_harbor
from castform_harbor.reference_agents import NopHarness
from castform_harbor.task import load_task

pytestmark = [pytest.mark.installs, pytest.mark.timeout(1500)]

TASKS = Path(__file__).parent / "tasks"
COMPARED = "network-by-phase,separate-own-image,shared-default,steps-mixed-under-shared"
VARIABLE = "CASTFORM_COMPARED"
"""Environment variable with the tasks to compare, as patterns between commas: `*` is all of them."""


@pytest.fixture(scope="module")
def harbor():
    """The real harbor, from CASTFORM_HARBOR or installed below CASTFORM_HOME once for all runs."""
    from castform.errors import MissingError
    from castform_harbor.real_harbor import find_real_harbor

    try:
        return find_real_harbor()
    except MissingError:
        return make_real_harbor()


@pytest.mark.docker
async def test_both_runners_give_the_same_rewards(harbor, judge_image, tmp_path):
    patterns = os.environ.get(VARIABLE, COMPARED).split(",")
    rows = await compare_runners(
        TASKS, agents=("oracle", "nop"), jobs_dir=tmp_path, harbor=harbor, patterns=patterns
    )
    assert len(rows) >= 2 * len(patterns)
    assert [f"{row.task}, {row.agent}: {row.describe()}" for row in rows if not row.is_same] == []
    assert {(row.agent, row.own["reward"]) for row in rows} == {("oracle", 1.0), ("nop", 0.0)}


@pytest.mark.docker
async def test_a_job_that_is_stopped_leaves_no_container_behind(harbor, tmp_path):
    task = tmp_path / "slow"
    for part in ("environment", "tests", "solution"):
        (task / part).mkdir(parents=True)
    (task / "task.toml").write_text("")
    (task / "instruction.md").write_text("Wait.")
    (task / "environment" / "Dockerfile").write_text("FROM castform/base:local\n")
    (task / "tests" / "test.sh").write_text("echo 1 > /logs/verifier/reward.txt\n")
    (task / "solution" / "solve.sh").write_text("#!/bin/sh\nsleep 600\n")
    (found,) = await run_real_harbor(
        RealJob(tasks=[task], timeout_seconds=25), tmp_path / "out", harbor=harbor
    )
    assert found.rewards is None and not found.is_finished
    listed = ["docker", "ps", "--all", "--quiet", "--filter", "name=slow__"]
    assert run(listed).stdout == "" and await remove_containers("none") == []


def run(words, **more):
    return subprocess.run(words, capture_output=True, text=True, check=True, **more)


async def test_the_real_harbors_viewer_reads_a_jobs_folder(harbor, provider, write_task, tmp_path):
    """Trials with a reward, without one, and of several steps; a job that goes on shows like one that ended."""
    folders = [
        write_task(name="sound"),
        write_task(name="undecided", files={"tests/test.sh": "#!/bin/sh\ntrue\n"}),
        write_task(
            '[[steps]]\nname = "one"',
            name="stepped",
            files={"instruction.md": None, "steps/one/instruction.md": "Do it.", "solution/solve.sh": "true"},
        ),
    ]
    job = Job(tasks=[load_task(folder) for folder in folders], folder=tmp_path / "jobs" / "j", agent="nop")
    await run_job(job, harness=NopHarness(), provider=provider)
    code = (
        "import json, sys; from pathlib import Path; from harbor.viewer.scanner import JobScanner\n"
        "scan = JobScanner(Path(sys.argv[1])); (job,) = scan.list_jobs(); found = {}\n"
        "assert scan.get_job_config(job).n_attempts == 1\n"
        "stats = scan.get_job_result(job).stats\n"
        "for trial in scan.list_trials(job):\n"
        "    result = scan.get_trial_result(job, trial)\n"
        "    verdict, failure = result.verifier_result, result.exception_info\n"
        "    assert scan.get_trial_config(job, trial).trial_name == trial\n"
        "    found[result.task_name] = [verdict and verdict.rewards, failure and failure.exception_type]\n"
        "print(json.dumps([found, stats.n_completed_trials, stats.n_errored_trials]))"
    )
    found, completed, errored = json.loads(run([harbor.python, "-c", code, str(tmp_path / "jobs")]).stdout)
    assert found == {
        "sound": [{"reward": 1.0}, None],
        "undecided": [None, "RewardFileNotFoundError"],
        "stepped": [{"reward": 1.0}, None],
    }
    assert (completed, errored) == (3, 1)


def test_trajectories_that_we_write_are_atif_to_the_real_harbor(harbor):
    tool = {"id": "a", "type": "function", "function": {"name": "run", "arguments": "{bad"}}
    messages = [{"role": "user", "content": "Go."}]
    replies = [
        {"role": "assistant", "content": None, "tool_calls": [tool]},
        {"role": "assistant", "content": "Done."},
    ]
    later = [*messages, replies[0], {"role": "tool", "tool_call_id": "a", "content": "gone"}]
    calls = [
        ModelCall(
            call_id=f"c{n}", session_id="s", index=n, messages=asked, reply=reply, finish_reason="stop",
            prompt_ids=[1, 2], sampled_ids=[3], logprobs=[-0.5],
        )
        for n, (asked, reply) in enumerate([(messages, replies[0]), (later, replies[1]), ([{"role": "user", "content": "Sub."}], replies[1])])
    ]  # fmt: skip
    document = make_trajectory(calls, session_id="s").as_document()
    code = (
        "import json, sys; from harbor.models.trajectories import Trajectory; "
        "print(json.dumps(Trajectory.model_validate(json.load(sys.stdin)).to_json_dict()))"
    )
    done = run([harbor.python, "-c", code], input=json.dumps(document))
    assert json.loads(done.stdout) == document and len(document["subagent_trajectories"]) == 1


def test_a_task_has_the_content_hash_that_the_real_harbor_gives_it(harbor, tmp_path):
    from benchmax.envs.harbor.content import hash_task

    folders = [shutil.copytree(task, tmp_path / task.name, symlinks=True) for task in TASKS.iterdir()]
    for seed in range(100):
        folders.append(tmp_path / f"random-{seed}")
        write_random_task(folders[-1], seed)
    code = (
        "import sys; from pathlib import Path; from harbor.publisher.packager import Packager\n"
        "for task in sorted(Path(sys.argv[1]).iterdir()): print(Packager.compute_content_hash(task)[0])"
    )
    theirs = run([harbor.python, "-c", code, str(tmp_path)]).stdout.split()
    assert theirs == [hash_task(task) for task in sorted(folders)]


def test_the_in_process_runners_config_is_one_that_harbor_takes(harbor, tmp_path):
    from benchmax.envs.harbor import (
        AgentConfig,
        EnvironmentConfig,
        HarborTrial,
        HarborTrialTemplate,
        VerifierConfig,
    )
    from benchmax.envs.harbor.in_process import describe_trial

    template = HarborTrialTemplate(
        agent=AgentConfig(name="terminus-2", kwargs={"max_turns": 3}, max_timeout_sec=5),
        environment=EnvironmentConfig(override_cpus=0.5),
        verifier=VerifierConfig(override_timeout_sec=3),
        artifacts=("/a",),
    )
    trial = HarborTrial(
        rollout_id="r", task=TASKS / "workdir", template=template, base_url="u", api_key="k", model="m"
    )
    code = (
        "import json, sys; from harbor.models.trial.config import TrialConfig; "
        "c = TrialConfig.model_validate(json.load(sys.stdin)); print(c.agent.model_name, c.environment.type.value, c.verifier.override_timeout_sec)"
    )
    done = run([harbor.python, "-c", code], input=json.dumps(describe_trial(trial)))
    assert done.stdout.split() == ["openai/m", "docker", "3.0"]


@pytest.mark.docker
def test_an_agent_that_travels_as_files_runs_in_the_real_harbor(harbor, tmp_path):
    root = Path(__file__).parents[2]
    path = [root / "core", root / "harbor_adapters" / "castform_harbor" / "inside_harbor"]
    right = (TASKS / "workdir" / "solution" / "solve.sh").read_text().splitlines()[-1]
    done = run(
        [harbor.python, Path(__file__).with_name("bundled_agent_run.py"), TASKS, right],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": ":".join(map(str, path)),
            "PYTHONDONTWRITEBYTECODE": "1",
            "HARBOR_TELEMETRY": "off",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        },
    )
    assert done.stdout.splitlines()[-1] == "{'reward': 1.0} max_turns_exceeded None"
