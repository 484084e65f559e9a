"""What reaches the judge when a group is scored: the reference, the rollout's name, the rubrics in use."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from benchmax.auth import ModelRequestContext
from benchmax.rewards.judge import Judge, fence
from benchmax.rewards.rubric import Rubric
from benchmax.rewards.scoring import score_group_rubrics
from benchmax.testing import ChatServer, ScriptedRequest
from benchmax.testing.replies import Answer

CORRECT = Rubric("Correct", "It is right.")
KNOWN = Rubric("Known", "It was found before.")
PROPOSED = {"positive_rubrics": [{"title": "Short", "description": "It is short."}], "negative_rubrics": []}


class Keys:
    """Keeps the names under which keys are asked for."""

    def __init__(self) -> None:
        self.names: list[str] = []

    async def headers_for_request(self, context: ModelRequestContext) -> Mapping[str, str]:
        self.names.append(context.rollout_id)
        return {}


def answer(request: ScriptedRequest) -> Answer:
    """Propose one rubric; answers of one letter are short, and everything is correct."""
    prompt = str(request.body["messages"][0]["content"])
    seal = prompt.rsplit('"', 2)[1]
    if "Criterion: " not in prompt:
        return {"content": json.dumps({"seal": seal, **PROPOSED})}
    good = "Criterion: Correct\n" in prompt or "\n| a\n" in prompt
    return {"content": json.dumps({"seal": seal, "score": int(good)})}


async def scored(keys: Keys, **settings: Any) -> tuple[Any, list[str]]:
    async with ChatServer(answer) as server:
        rewards = await score_group_rubrics(
            ["r0", "r1"],
            ["a", "bb"],
            ground_truth="gold",
            question="q?",
            judge=Judge("m", server.base_url, keys),
            rubrics=[CORRECT],
            **settings,
        )
    return rewards, [str(request.body["messages"][0]["content"]) for request in server.requests]


async def test_every_question_shows_the_reference_and_bears_its_rollouts_name() -> None:
    keys = Keys()
    rewards, prompts = await scored(keys)
    assert rewards == [{"rubric_correct": 1.0}, {"rubric_correct": 1.0}]
    assert sorted(keys.names) == ["r0", "r1"]
    assert all(fence("Reference answer", "gold") in prompt for prompt in prompts)


async def test_the_search_for_rubrics_shows_reference_answers_and_all_rubrics_in_use() -> None:
    keys = Keys()
    rewards, prompts = await scored(keys, use_adaptive=True, existing_rubrics=[KNOWN])
    assert rewards == [
        {"rubric_correct": 1.0, "rubric_adaptive": 1.0},
        {"rubric_correct": 1.0, "rubric_adaptive": 0.0},
    ]
    (search,) = [prompt for prompt in prompts if "Criterion: " not in prompt]
    in_use = "- Correct: It is right.\n- Known: It was found before."
    for shown in (
        fence("Question", "q?"),
        fence("Reference answer", "gold"),
        fence("Answer 0", "a"),
        fence("Answer 1", "bb"),
        fence("Criteria in use, not to be repeated", in_use),
    ):
        assert shown in search
    assert all(fence("Reference answer", "gold") in prompt for prompt in prompts)
    assert all(fence("Question", "q?") in prompt for prompt in prompts)
    assert sorted(name for name in keys.names if name in ("r0", "r1")) == ["r0", "r0", "r1", "r1"]
