"""The mock endpoint fails when, where and how it is told to, to any client."""

from __future__ import annotations

import time

import breakers
import httpx
import openai
import pytest

from castform.scripted_replies import ScriptedRequest
from castform.testing import (
    FakeModel,
    Fault,
    MockEndpoint,
    Reply,
    ToolUse,
    at_random,
    context_full,
    cut_off,
    every,
    garbled,
    in_order,
    late,
    rate_limited,
    server_error,
    slow_body,
    truncated,
)

MESSAGES = [{"role": "user", "content": "hello there"}]


def ask(endpoint, **fields):
    client = openai.OpenAI(base_url=endpoint.base_url, api_key=endpoint.api_key, max_retries=0)
    return client.chat.completions.create(model="m", messages=MESSAGES, **fields)


def say(request):
    return Reply(content="forty-two is the answer to everything")


@pytest.mark.parametrize(
    "trouble, error, told",
    [
        (rate_limited(7), openai.RateLimitError, "slow down"),
        (server_error(), openai.InternalServerError, "the server failed"),
        (server_error(503), openai.InternalServerError, "503"),
        (context_full(), openai.BadRequestError, "too long"),
        (cut_off(30), openai.APIConnectionError, "Connection error|peer closed"),
        (garbled(), ValueError, "Unterminated string"),
    ],
)
def test_a_trouble_is_what_a_client_meets_and_the_next_request_is_served(trouble, error, told):
    with MockEndpoint(say, faults=[in_order([trouble])]) as endpoint:
        with pytest.raises((error, httpx.RemoteProtocolError), match=told) as caught:
            ask(endpoint)
        if isinstance(caught.value, openai.RateLimitError):
            assert caught.value.response.headers["retry-after"] == "7"
            assert caught.value.code == "rate_limit"
        assert ask(endpoint).choices[0].message.content.startswith("forty-two")
    assert [request.index for request in endpoint.asked] == [0, 1]


def test_a_truncated_reply_ends_with_length_and_without_its_calls():
    reply = Reply(content="forty-two is", tool_calls=[ToolUse(name="f")])
    with MockEndpoint(lambda request: reply, faults=[every(1, truncated(5))]) as endpoint:
        [choice] = ask(endpoint).choices
    assert (choice.message.content, choice.finish_reason, choice.message.tool_calls) == (
        "forty",
        "length",
        None,
    )


def test_a_stream_is_cut_in_the_middle():
    with MockEndpoint(say, faults=[every(1, cut_off(700))]) as endpoint:
        got = []
        with pytest.raises((openai.APIConnectionError, httpx.RemoteProtocolError)):
            for chunk in ask(endpoint, stream=True):
                got += [choice.delta.content or "" for choice in chunk.choices]
    assert "forty-two is the answer to everything".startswith("".join(got))
    assert "".join(got).startswith("forty-two")


@pytest.mark.parametrize("stream", [False, True])
def test_latency_and_a_slow_body_take_their_time(stream):
    with MockEndpoint(say, faults=[in_order([late(0.15), slow_body(0.03)])]) as endpoint:
        for least in (0.15, 0.12):  # four events or pieces of 64 bytes, at least
            began = time.perf_counter()
            answer = ask(endpoint, stream=stream)
            if stream:
                list(answer)
            assert time.perf_counter() - began >= least


def test_n_choices_are_one_request_of_the_schedule():
    with MockEndpoint(say, faults=[every(2, server_error())]) as endpoint:
        assert len(ask(endpoint, n=3).choices) == 3
        with pytest.raises(openai.InternalServerError):
            ask(endpoint, n=3)
        assert len(ask(endpoint, n=2).choices) == 2
    assert len(endpoint.asked) == 3


def test_every_nth_request_of_all_sessions_is_hit():
    schedule = every(3, rate_limited())
    hit = [schedule(asked(f"s{i % 2}", i // 2), i) is not None for i in range(9)]
    assert hit == [False, False, True] * 3
    with pytest.raises(ValueError, match="n is at least 1"):
        every(0, rate_limited())


def test_chance_depends_on_seed_session_and_place_and_on_no_order():
    places = [(f"s{s}", i) for s in range(40) for i in range(50)]

    def hits(seed, order):
        schedule = at_random(0.2, server_error(), seed=seed)
        return {(s, i) for place, (s, i) in enumerate(order) if schedule(asked(s, i), place) is not None}

    first = hits(1, places)
    assert first == hits(1, places[::-1])
    assert first != hits(2, places)
    assert 0.17 < len(first) / len(places) < 0.23
    assert hits(1, []) == set()
    with pytest.raises(ValueError, match="from 0 to 1"):
        at_random(1.5, server_error())


def test_a_script_of_troubles_can_be_for_one_session_and_the_first_schedule_wins():
    schedule = in_order([None, late(1)], session="b")
    assert [schedule(asked("b", i), 0) is not None for i in range(3)] == [False, True, False]
    assert schedule(asked("a", 1), 0) is None
    with MockEndpoint(say, faults=[in_order([rate_limited()]), every(1, server_error())]) as endpoint:
        with pytest.raises(openai.RateLimitError):
            ask(endpoint)
        with pytest.raises(openai.InternalServerError):
            ask(endpoint)


def test_replies_run_out_and_an_error_stays_one_under_a_trouble():
    with MockEndpoint([Fault(status=401, message="who?")], faults=[every(1, late(5))]) as endpoint:
        with pytest.raises(openai.AuthenticationError, match="who"):
            ask(endpoint)
        with pytest.raises(openai.BadRequestError, match="request 2 of a conversation, but the script has 1"):
            ask(endpoint)


async def test_an_environment_comes_through_a_rate_limit_and_fails_typed_at_a_broken_server():
    [example] = (await breakers.Doubles().create_dataset("train", None, max_examples=1))[:1]
    async with FakeModel(["6"], faults=[in_order([rate_limited()], session="fake-group-0-0")]) as model:
        group = await model.run_group(breakers.Doubles(), example, size=2)
        # the retry is the second request, for which there is no reply
        assert [r.termination_reason for r in group.rollouts] == ["model_error", "finished"]
    async with FakeModel(lambda request: "6", faults=[in_order([rate_limited()])]) as model:
        group = await model.run_group(breakers.Doubles(), example, size=2)
        assert [r.rewards for r in group.rollouts] == [{"correct": 1.0}] * 2
        assert len(model.requests) == 4
    async with FakeModel(lambda request: "6", faults=[every(1, garbled())]) as model:
        [rollout] = (await model.run_group(breakers.Doubles(), example)).rollouts
    assert (rollout.termination_reason, rollout.score) == ("model_error", None)
    assert "not JSON" in rollout.error


def asked(session: str, index: int) -> ScriptedRequest:
    return ScriptedRequest(session_id=session, index=index, body={"messages": MESSAGES})
