"""Whatever an agent, a solution or the tests leave: the trial ends, its files are whole, the others go on."""

from __future__ import annotations

import json

import pytest
from test_trial import SOLVING, Agent, result_of, run

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
