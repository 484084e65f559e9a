"""Task folders, and an environment whose trials are scripted."""

from __future__ import annotations

import json

import pytest

from benchmax.envs import RolloutRequest, StaticBearerAuth
from benchmax.envs.harbor import (
    AgentConfig,
    DatasetConfig,
    EnvironmentConfig,
    HarborEnv,
    HarborTrialTemplate,
    VerifierConfig,
)
from benchmax.testing.trial_runner import RUNNER


@pytest.fixture
def make_task(tmp_path):
    """Write a task and return its folder. Its instruction tells it apart from others."""

    def make(name="one", *, under="source", **result):
        folder = tmp_path / under / name
        (folder / "tests").mkdir(parents=True)
        (folder / "task.toml").write_text('schema_version = "1.4"\n')
        (folder / "instruction.md").write_text(f"Do {name}.\n")
        (folder / "tests" / "test.sh").write_text("#!/bin/sh\necho 1 > /logs/verifier/reward.txt\n")
        (folder / "tests" / "scripted_result.json").write_text(
            json.dumps(result or {"rewards": {"reward": 1.0}})
        )
        return folder

    return make


@pytest.fixture
def make_env(tmp_path):
    def make(*, agent=None, environment=None, verifier=None, template=None, **options):
        trial = HarborTrialTemplate(
            agent=agent or AgentConfig(name="nop"),
            environment=environment or EnvironmentConfig(),
            verifier=verifier or VerifierConfig(),
            trials_dir=tmp_path / "trials",
            **(template or {}),
        )
        options = {"dataset": DatasetConfig(path="source"), "runner": RUNNER, **options}
        return HarborEnv(trial=trial, **options)

    return make


@pytest.fixture
def request_of():
    """Return a request for one rollout of an example."""

    def make(example, rollout_id="r-1", **changes):
        fields = {
            "model": "tiny",
            "base_url": "http://127.0.0.1:1/v1",
            "model_auth": StaticBearerAuth("sesame"),
        }
        return RolloutRequest(rollout_id=rollout_id, example=example, **{**fields, **changes})

    return make


@pytest.fixture
def run_trial(tmp_path, make_task, make_env, request_of):
    """Run one trial with a scripted result and return its outcome."""

    async def run(*, rollout_id="r-1", env=None, **result):
        make_task(**result)
        env = env or make_env()
        dataset = await env.create_dataset("train", tmp_path)
        return (await env.run_group([request_of(dataset[0], rollout_id)]))[rollout_id]

    return run
