from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from castform.plugins import load_environment
from castform.testing import FakeModel, Fault, ScriptedRequest, assert_conforms


def judge(request: ScriptedRequest) -> str:
    """Give 1 to an answer that names a calculation, as the rubric asks."""
    _, _, answer = str(request.messages[-1]["content"]).partition("BEGIN Answer")
    shows_steps = " times " in answer or " divided by " in answer
    return json.dumps({"reasoning": "scripted", "score": int(shows_steps)})


@pytest.fixture
def judge_url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A judge behind a real HTTP server, and its key where the environment looks for it."""
    with FakeModel(judge) as model:
        grant = model.endpoint.add_session("judge")
        monkeypatch.setenv("JUDGE_API_KEY", grant.api_key)
        yield grant.base_url


def test_it_keeps_the_rules_that_all_environments_keep() -> None:
    assert_conforms("PLUGIN_NAME")


def test_it_keeps_them_with_a_judge_too(judge_url: str) -> None:
    assert_conforms("PLUGIN_NAME", args={"judge_base_url": judge_url})


async def test_a_right_number_is_judged_and_a_wrong_one_is_not(judge_url: str) -> None:
    environment = load_environment(
        "PLUGIN_NAME", {"judge_base_url": judge_url}
    ).environment
    (example,) = await environment.create_dataset("eval", Path(), max_examples=1)
    number = f"<answer>{example.payload['ground_truth']}</answer>"
    replies = [
        environment.gold(example),
        number,
        "One times two. <answer>2</answer>",
    ]
    async with FakeModel(lambda request: replies[int(request.session_id[-1])]) as model:
        group = await model.run_group(environment, example, size=3, split="eval")
    await environment.aclose()
    assert [rollout.rewards for rollout in group.rollouts] == [
        {"correct": 1.0, "rubric_shows_its_steps": 1.0},
        {"correct": 1.0, "rubric_shows_its_steps": 0.0},
        {"correct": 0.0, "rubric_shows_its_steps": 0.0},
    ]


async def test_an_outage_of_the_judge_is_no_score(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with FakeModel(lambda request: Fault(status=400, message="down")) as broken:
        grant = broken.endpoint.add_session("judge")
        monkeypatch.setenv("JUDGE_API_KEY", grant.api_key)
        environment = load_environment(
            "PLUGIN_NAME", {"judge_base_url": grant.base_url}
        ).environment
        (example,) = await environment.create_dataset("eval", Path(), max_examples=1)
        async with FakeModel([environment.gold(example)]) as model:
            group = await model.run_group(environment, example, split="eval")
        await environment.aclose()
    assert group.rollouts[0].termination_reason == "judge_error"
    assert group.rollouts[0].rewards == {}


async def test_without_a_judge_the_environment_says_so() -> None:
    environment = load_environment("PLUGIN_NAME").environment
    assert [found.code for found in environment.validation_diagnostics()] == [
        "no_judge"
    ]
    await environment.aclose()
