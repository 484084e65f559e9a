"""Scores of a rollout and of a group by rubrics."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from benchmax.envs import StaticBearerAuth
from benchmax.rewards.adaptive import RubricCache
from benchmax.rewards.judge import Judge, JudgeError
from benchmax.rewards.rubric import Rubric
from benchmax.rewards.scoring import score_group_rubrics, score_rubrics
from benchmax.testing import ChatServer, Fault, ScriptedRequest
from benchmax.testing.replies import Answer

CORRECT = Rubric("Correct", "It is right.")
RUDE = Rubric("Rude", "It is rude.", "negative")


def judge_of(server: ChatServer) -> Judge:
    return Judge("m", server.base_url, StaticBearerAuth("k"), retry_seconds=0.0, max_retries=0)


def prompt_of(request: ScriptedRequest) -> str:
    return request.body["messages"][0]["content"]


def verdict(score: float) -> Answer:
    return {"content": json.dumps({"score": score})}


def by_criterion(**scores: float):
    """Score by the first rubric title that the prompt names."""

    def answer(request: ScriptedRequest) -> Answer:
        return next(
            verdict(score) for title, score in scores.items() if f"Criterion: {title}\n" in prompt_of(request)
        )

    return answer


async def scored(server: ChatServer, completion: Any, rubrics: list[Rubric]) -> dict[str, float]:
    return await score_rubrics(
        "r0", completion, ground_truth="42", rubrics=rubrics, question="6*7?", judge=judge_of(server)
    )


async def test_each_rubric_earns_its_reward_under_its_key():
    async with ChatServer(by_criterion(Correct=1, Rude=1)) as server:
        assert await scored(server, " 42 ", [CORRECT, RUDE]) == {"rubric_correct": 1.0, "rubric_rude": 0.0}
        assert len(server.requests) == 2
    assert all("\n| 42\n" in prompt_of(request) for request in server.requests)
    assert all("BEGIN Reference answer" in prompt_of(request) for request in server.requests)


@pytest.mark.parametrize(
    "empty", ["", " \n ", [], [{"role": "user", "content": "x"}], [{"role": "assistant", "content": None}]]
)
async def test_an_empty_answer_earns_nothing_by_any_rubric_and_asks_no_judge(empty):
    async with ChatServer([verdict(1)]) as server:
        assert await scored(server, empty, [CORRECT, RUDE]) == {"rubric_correct": 0.0, "rubric_rude": 0.0}
        assert server.requests == []


async def test_of_a_transcript_the_last_answer_is_judged():
    talk = [{"role": "user", "content": "6*7?"}, {"role": "assistant", "content": "It is 42."}]
    async with ChatServer([verdict(1)]) as server:
        await scored(server, talk, [CORRECT])
    assert "\n| It is 42.\n" in prompt_of(server.requests[0])


@pytest.mark.parametrize(
    ("rubrics", "words"),
    [
        ([], "there is no rubric to score by"),
        ([Rubric("A-B", "d"), Rubric("A B", "d")], "'A B' and 'A-B' would share the reward 'rubric_a_b'"),
        ([Rubric("!", "d")], "no letter or digit"),
    ],
)
async def test_rubrics_without_rewards_of_their_own_are_refused(rubrics, words):
    async with ChatServer([verdict(1)]) as server:
        for completion in ("42", ""):
            with pytest.raises(ValueError, match=words):
                await scored(server, completion, rubrics)
        assert server.requests == []


async def test_a_blank_rollout_id_is_refused():
    async with ChatServer([verdict(1)]) as server:
        with pytest.raises(ValueError, match="rollout id must be a non-empty string"):
            await score_rubrics(
                " ", "42", ground_truth=None, rubrics=[CORRECT], question="?", judge=judge_of(server)
            )


async def test_rubrics_are_judged_at_the_same_time():
    both = asyncio.Barrier(2)

    async def answer(request: ScriptedRequest) -> Answer:
        await both.wait()
        return verdict(1)

    async with ChatServer(answer) as server:
        assert await scored(server, "42", [CORRECT, RUDE]) == {"rubric_correct": 1.0, "rubric_rude": 0.0}


async def test_an_outage_of_one_cancels_the_calls_of_the_others():
    hanging, left = asyncio.Event(), asyncio.Event()

    async def answer(request: ScriptedRequest) -> Answer:
        if "Criterion: Rude" in prompt_of(request):
            hanging.set()
            try:
                await asyncio.Event().wait()
            finally:
                left.set()
        await hanging.wait()
        return Fault(status=500, message="down")

    async with ChatServer(answer) as server:
        with pytest.raises(JudgeError, match="HTTP 500: down"):
            await scored(server, "42", [CORRECT, RUDE])
        await asyncio.wait_for(left.wait(), 10)


# --- groups ---------------------------------------------------------------------------------


async def group_scored(
    server: ChatServer, completions: list[Any], **arguments: Any
) -> list[dict[str, float]]:
    ids = arguments.pop("ids", [f"r{number}" for number in range(len(completions))])
    settings = {"ground_truth": None, "question": "6*7?", "judge": judge_of(server), **arguments}
    return await score_group_rubrics(ids, completions, **settings)


async def test_each_sibling_is_scored_by_itself():
    def answer(request: ScriptedRequest) -> Answer:
        return verdict(float("\n| 42\n" in prompt_of(request)))

    async with ChatServer(answer) as server:
        rewards = await group_scored(server, ["41", "42", ""], rubrics=[CORRECT, RUDE])
        assert len(server.requests) == 4
    assert rewards == [
        {"rubric_correct": 0.0, "rubric_rude": 1.0},
        {"rubric_correct": 1.0, "rubric_rude": 0.0},
        {"rubric_correct": 0.0, "rubric_rude": 0.0},
    ]


async def test_siblings_are_judged_at_the_same_time_and_fail_together():
    arrived, left = asyncio.Barrier(2), asyncio.Event()

    async def answer(request: ScriptedRequest) -> Answer:
        await arrived.wait()
        if "| bad" in prompt_of(request):
            return Fault(status=400, message="refused")
        try:
            await asyncio.Event().wait()
        finally:
            left.set()
        return verdict(1)

    async with ChatServer(answer) as server:
        with pytest.raises(JudgeError, match="HTTP 400: refused"):
            await group_scored(server, ["good", "bad"], rubrics=[CORRECT])
        await asyncio.wait_for(left.wait(), 10)


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        (["a"], "1 rollout ids for 2 completions"),
        (["a", "b", "c"], "3 rollout ids for 2 completions"),
        (["a", "a"], "must differ"),
        (["a", " "], "rollout id must be a non-empty string"),
    ],
)
async def test_ids_must_name_the_completions(ids, words):
    async with ChatServer([verdict(1)]) as server:
        with pytest.raises(ValueError, match=words):
            await group_scored(server, ["x", "y"], ids=ids, rubrics=[CORRECT])
        assert server.requests == []


async def test_a_group_needs_a_rubric_of_some_kind():
    async with ChatServer([verdict(1)]) as server:
        with pytest.raises(ValueError, match="there is no rubric"):
            await group_scored(server, ["x"])


PROPOSED = {
    "positive_rubrics": [{"title": "Shows work", "description": "It shows its work."}],
    "negative_rubrics": [{"title": "Guesses", "description": "It guesses."}],
}


def adaptive_judge(request: ScriptedRequest) -> Answer:
    """Proposes two rubrics; long answers show work, short ones guess; everything is correct."""
    prompt = prompt_of(request)
    if "Criterion:" not in prompt:
        return {"content": json.dumps(PROPOSED)}
    long = "| because" in prompt
    shown = {"Shows work": long, "Guesses": not long, "Correct": True}
    return next(verdict(float(yes)) for title, yes in shown.items() if f"Criterion: {title}\n" in prompt)


async def test_adaptive_rubrics_earn_their_mean_as_one_reward():
    cache = RubricCache()
    async with ChatServer(adaptive_judge) as server:
        rewards = await group_scored(
            server, ["because 6*7", "42", ""], rubrics=[CORRECT], use_adaptive=True, cache=cache
        )
    assert rewards == [
        {"rubric_correct": 1.0, "rubric_adaptive": 1.0},
        {"rubric_correct": 1.0, "rubric_adaptive": 0.0},
        {"rubric_correct": 0.0, "rubric_adaptive": 0.0},
    ]
    assert {rubric.title for rubric in cache.get("6*7?").all} == {"Shows work", "Guesses"}
    [proposal] = [request for request in server.requests if "Criterion:" not in prompt_of(request)]
    assert "It is right." in prompt_of(proposal)


async def test_adaptive_rubrics_may_be_the_only_ones_and_there_may_be_none():
    async with ChatServer(adaptive_judge) as server:
        assert await group_scored(server, ["because", "42"], use_adaptive=True) == [
            {"rubric_adaptive": 1.0},
            {"rubric_adaptive": 0.0},
        ]
        count = len(server.requests)
        assert await group_scored(server, ["42"], use_adaptive=True) == [{"rubric_adaptive": 0.0}]
        assert len(server.requests) == count


async def test_a_fixed_rubric_cannot_take_the_name_of_the_adaptive_ones():
    adaptive = Rubric("Adaptive", "It adapts.")
    async with ChatServer([verdict(1)]) as server:
        words = "'Adaptive' and the adaptive rubrics would share the reward 'rubric_adaptive'"
        with pytest.raises(ValueError, match=words):
            await group_scored(server, ["x", "y"], rubrics=[CORRECT, adaptive], use_adaptive=True)
        assert server.requests == []
        assert await group_scored(server, ["x"], rubrics=[adaptive]) == [{"rubric_adaptive": 1.0}]
