"""Whatever an agent, a solution or the tests leave: the trial ends, its files are whole, the others go on."""

from __future__ import annotations

import json
import re

import pytest
from test_trial import SOLVING, Agent, result_of, run

from castform.errors import UsageError
from castform.harness.contract import HarnessResult


def nest(depth):
    found = []
    for _ in range(depth):
        found = [found]
    return found


ODD = {
    "metrics are a list": {"steps": [], "final_metrics": [1]},
    "metrics are text": {
        "steps": [],
        "final_metrics": {"total_prompt_tokens": "x" * 100, "total_cost_usd": True},
    },
    "metrics are no numbers": {"steps": [], "final_metrics": {"total_prompt_tokens": float("nan")}},
    "metrics are nested": {"steps": [], "final_metrics": {"total_prompt_tokens": nest(900)}},
    "nested too deep to be written": {"steps": nest(5000)},
    "half a pair": {"steps": [{"message": "\ud800"}], "\udfff": 1},
}


@pytest.mark.parametrize("trajectory", ODD.values(), ids=ODD)
async def test_an_agents_own_account_costs_no_trial(write_task, provider, tmp_path, trajectory):
    agent = Agent(
        "touch /work/done", HarnessResult(status="finished", trajectory=trajectory, output="\ud800")
    )
    outcome = await run(write_task(files=SOLVING), provider, tmp_path, agent)
    assert (outcome.status, outcome.rewards) == ("ok", {"reward": 1.0})
    result = result_of(outcome)
    assert result["verifier_result"] == {"rewards": {"reward": 1.0}}
    assert result["agent_result"]["n_input_tokens"] is None
    for file in outcome.trial_dir.rglob("*.json"):
        json.loads(file.read_text())


@pytest.mark.parametrize("folder", ["agent", "verifier", "artifacts"])
@pytest.mark.parametrize(
    "odd", ["echo x > {}", "ln -s / {}", "mkfifo {}", "true"], ids=["file", "link", "pipe", "gone"]
)
async def test_an_agent_that_spoils_the_log_folders_is_judged(write_task, provider, tmp_path, folder, odd):
    spoil = f"rm -r /logs/{folder}; " + odd.format(f"/logs/{folder}")
    outcome = await run(write_task(files=SOLVING), provider, tmp_path, Agent(spoil))
    assert (outcome.status, outcome.rewards) == ("ok", {"reward": 0.0})


@pytest.mark.parametrize(
    "odd", ["echo x > {}", "ln -s / {}", "mkfifo {}", "true"], ids=["file", "link", "pipe", "gone"]
)
async def test_tests_that_spoil_their_own_folder_are_at_fault(write_task, provider, tmp_path, odd):
    spoil = "#!/bin/sh\nrm -r /logs/verifier; " + odd.format("/logs/verifier")
    outcome = await run(write_task(files={"tests/test.sh": spoil}), provider, tmp_path)
    assert (outcome.status, outcome.rewards) == ("verifier_error", None)


async def test_no_artifact_lands_on_the_list_of_artifacts(write_task, provider, tmp_path):
    agent = Agent("mkdir -p manifest.json; echo x > manifest.json/inside; echo y > other")
    folder = write_task('artifacts = ["/manifest.json/inside", "/manifest.json", "other"]', files=SOLVING)
    outcome = await run(folder, provider, tmp_path, agent)
    assert outcome.status == "ok"
    listed = json.loads((outcome.trial_dir / "artifacts" / "manifest.json").read_text())
    assert {item["source"]: item["status"] for item in listed} == {
        "/logs/artifacts": "empty",
        "/manifest.json/inside": "skipped",
        "/manifest.json": "skipped",
        "other": "ok",
    }


@pytest.mark.parametrize(
    ("toml", "said"),
    [
        ("[environment]\ncpus = 1e9", "limits.cpus is 1000000000.0"),
        ("[environment]\nmemory_mb = 1e15", "limits.memory_mb is 1000000000000000"),
        ('[environment]\nstorage = "999999999999G"', "limits.disk_mb is"),
        ('[environment]\nworkdir = "rel"', "workdir is 'rel'"),
        ('[environment]\ndocker_image = "a b"', "'a b' is no image's name"),
        ('[agent]\nuser = "no such"', "'no such' is no user"),
        ("[verifier]\nuser = 99999999999", "numbers of users and groups go up to"),
        ('[[verifier.collect]]\ncommand = "true"\nuser = "a b"', "'a b' is no user"),
        ("[verifier.environment]\ncpus = 1e9", "limits.cpus is 1000000000.0"),
    ],
)
async def test_what_no_box_can_be_asked_for_is_told_before_anything_starts(
    write_task, provider, tmp_path, toml, said
):
    with pytest.raises(UsageError, match=f"^harbour cannot be run: .*{re.escape(said)}"):
        await run(write_task(toml), provider, tmp_path)
    assert provider.boxes == []
    assert not (tmp_path / "trials").exists()


async def test_a_limit_in_time_may_be_as_long_as_anybody_likes(write_task, provider, tmp_path):
    long = "timeout_sec = 1e308\n"
    folder = write_task(f"[agent]\n{long}[verifier]\n{long}[environment]\nbuild_{long}", files=SOLVING)
    agent = Agent("touch /work/done")
    outcome = await run(folder, provider, tmp_path, agent, timeout_multiplier=1e9)
    assert (outcome.status, outcome.rewards) == ("ok", {"reward": 1.0})
    assert int(agent.seen[0].timeout_seconds) == 10**9
