"""What the settings become, and rollouts in real boxes."""

from __future__ import annotations

import json

import pytest
from castform_env_harbor.config import HarborConfig
from castform_env_harbor.environment import HarborTasks, make_dataset_config, make_template

from benchmax.envs import RolloutRequest, StaticBearerAuth
from benchmax.testing import ChatServer, Reply
from castform.sandbox.errors import MissingError, UsageError

ANSWER = "/app/answer.txt"


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("CASTFORM_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def make_task(tmp_path):
    def make(name, answer="42"):
        folder = tmp_path / "tasks" / name
        for part in ("tests", "environment"):
            (folder / part).mkdir(parents=True)
        (folder / "task.toml").write_text(
            f'artifacts = ["{ANSWER}"]\n[environment]\nnetwork_mode = "no-network"\n'
        )
        (folder / "instruction.md").write_text(f"Write {answer} to {ANSWER}.\n")
        (folder / "environment" / "Dockerfile").write_text(
            "FROM castform/base:local\nRUN mkdir /app\nWORKDIR /app\n"
        )
        script = f'#!/bin/sh\n[ "$(cat {ANSWER})" = {answer} ] && echo 1 > "$0.out" || echo 0 > "$0.out"\n'
        (folder / "tests" / "test.sh").write_text(f'{script}cp "$0.out" /logs/verifier/reward.txt\n')
        return folder

    return make


def test_the_limits_of_a_trial_are_below_the_runs_own():
    config = HarborConfig(tasks="t")
    template = make_template(config, make_dataset_config("t", config).path, run="r")
    inner = config.setup_timeout_seconds + config.agent_timeout_seconds + config.verifier_timeout_seconds
    assert inner < config.trial_timeout_seconds < 600
    assert template.agent_config.max_timeout_sec == 240 and template.verifier.override_timeout_sec == 120
    assert template.agent_setup_timeout_multiplier * 360 == 120
    assert (template.verification, template.environment.type) == ("fresh", "docker")


def test_two_runs_at_a_time_have_folders_of_their_own_for_rollouts_of_one_name(tmp_path):
    config = HarborConfig(tasks="t", trials_dir=str(tmp_path / "trials"))
    folders = {HarborTasks(config).trial.trials_dir for _ in range(2)}
    assert len(folders) == 2 and {folder.parent for folder in folders} == {tmp_path / "trials"}


def test_a_registry_file_names_its_only_dataset_or_the_one_that_is_asked_for(tmp_path):
    registry = tmp_path / "registry.json"
    registry.write_text(json.dumps([{"name": "set", "version": "1", "tasks": []}]))
    config = make_dataset_config(str(registry), HarborConfig(tasks="x"))
    assert (config.name, config.version, config.registry_path) == ("set", None, registry)
    asked = make_dataset_config(str(registry), HarborConfig(tasks="x", dataset="set@1"))
    assert (asked.name, asked.version) == ("set", "1")
    registry.write_text(json.dumps([{"name": "a"}, {"name": "b"}]))
    with pytest.raises(UsageError, match="a, b"):
        make_dataset_config(str(registry), HarborConfig(tasks="x"))
    with pytest.raises(UsageError, match=r"registry\.json"):
        make_dataset_config(str(tmp_path), HarborConfig(tasks="x", dataset="set"))


async def test_tasks_are_copied_below_the_home_and_not_beside_the_code(home, tmp_path, make_task):
    for number in range(4):
        make_task(f"t{number}", answer=str(number))
    env = HarborTasks(HarborConfig(tasks=str(tmp_path / "tasks"), harness="nop", only=["t*"], without=["t3"]))
    train = await env.create_dataset("train", tmp_path / "elsewhere")
    held_out = await env.create_dataset("eval", tmp_path / "elsewhere")
    assert (len(train), len(held_out)) == (2, 1) and not (tmp_path / "elsewhere").exists()
    assert train[0].payload["path"] == str(home / "harbor" / "tasks" / train[0].id)
    assert not env.requires_public_model_endpoint and env.max_concurrent_rollouts == 4


async def run(env, tmp_path, *, model="http://127.0.0.1:9/v1", count=1):
    dataset = await env.create_dataset("train", tmp_path)
    fields = {
        "example": dataset[0],
        "model": "scripted",
        "base_url": model,
        "model_auth": StaticBearerAuth("sesame"),
    }
    try:
        return await env.run_group([RolloutRequest(rollout_id=f"r-{n}", **fields) for n in range(count)])
    finally:
        await env.aclose()


@pytest.mark.docker
async def test_an_agent_earns_what_fresh_tests_see_of_its_work(home, tmp_path, make_task):
    make_task("t")
    env = HarborTasks(HarborConfig(tasks=str(tmp_path / "tasks"), eval_ratio=0, keep_trials="all"))

    script = [Reply(content=f"```sh\necho 42 > {ANSWER}\n```"), Reply(content="DONE")]
    async with ChatServer(script) as server:
        outcomes = await run(env, tmp_path, model=server.base_url)
    assert outcomes["r-0"].rewards == {"reward": 1.0} and outcomes["r-0"].termination_reason == "finished"
    assert server.requests[0].headers["Authorization"] == "Bearer sesame"
    assert (env.trial.trials_dir / "r-0" / "result.json").is_file()
    assert env.trial.trials_dir.parent == home / "harbor" / "trials"


@pytest.mark.docker
async def test_rewards_that_an_agent_plants_are_worth_nothing(home, tmp_path, make_task):
    make_task("t")
    env = HarborTasks(HarborConfig(tasks=str(tmp_path / "tasks"), eval_ratio=0))
    plants = (
        "mkdir -p /tests /logs/verifier; echo 1 > /logs/verifier/reward.txt; echo exit 0 > /tests/test.sh"
    )
    async with ChatServer([Reply(content=f"```sh\n{plants}\n```"), Reply(content="DONE")]) as server:
        outcomes = await run(env, tmp_path, model=server.base_url)
    assert outcomes["r-0"].rewards == {"reward": 0.0}
    assert not (env.trial.trials_dir / "r-0").exists()


async def test_what_these_boxes_lack_is_said_before_the_first_rollout(make_task, tmp_path, monkeypatch):
    make_task("a")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    given = {"tasks": str(tmp_path / "tasks"), "harness_args": {}}
    engineless = HarborTasks(HarborConfig(**given, sandbox="docker"))
    loose = HarborTasks(HarborConfig(**given, sandbox="process"))
    for environment, error, said in (
        (engineless, MissingError, "does not answer"),
        (loose, UsageError, "isolates nothing"),
    ):
        await environment.create_dataset("train", tmp_path)
        with pytest.raises(error, match=said):
            await environment.check_ready()
        await environment.aclose()
