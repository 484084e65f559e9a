"""Connections and retries of model calls, exactly: how many, which cookies, what is logged."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import pytest

from benchmax.auth import ModelRequestContext
from benchmax.envs import RolloutFailure, StaticBearerAuth
from benchmax.envs.http_pool import HttpPool, is_loopback
from benchmax.envs.model_client import CallLimits, ModelClient
from benchmax.envs.retry import retry_delay
from benchmax.envs.reward_values import check_rewards
from benchmax.testing import ChatServer, Fault, RawReply, ScriptedRequest
from benchmax.testing.replies import Answer

KEY = "key-0123456789"
BODY = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


def client_of(*, retries: int = 0, retry_seconds: float = 0.0) -> ModelClient:
    return ModelClient(CallLimits(retries=retries, retry_seconds=retry_seconds, timeout_seconds=30.0))


def context_of(server: ChatServer) -> ModelRequestContext:
    return ModelRequestContext(server.base_url, "m", "r1")


@pytest.mark.parametrize("host", ["localhost", "::1", "127.0.0.1", "127.8.9.1"])
def test_the_names_of_this_machine(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["", "localhost.example", "::2", "128.0.0.1", "1127.0.0.1", "my127.0.0.1"])
def test_the_names_of_other_machines(host: str) -> None:
    assert not is_loopback(host)


async def test_more_than_a_hundred_requests_run_at_a_time() -> None:
    arrived = 0
    all_here = asyncio.Event()

    async def answer(request: ScriptedRequest) -> Answer:
        nonlocal arrived
        arrived += 1
        if arrived == 101:
            all_here.set()
        await all_here.wait()
        return {"content": "hi"}

    client = client_of()
    async with ChatServer(answer) as server, asyncio.timeout(20):
        auth = StaticBearerAuth(KEY)
        await asyncio.gather(*(client.complete(context_of(server), auth, BODY) for _ in range(101)))
        await client.aclose()
    assert len({request.client_port for request in server.requests}) == 101


async def test_a_servers_cookies_are_not_sent_back() -> None:
    async with ChatServer([Fault(status=503, headers={"Set-Cookie": "a=b; Path=/"})]) as server:
        pool = HttpPool()
        url = server.base_url.replace("127.0.0.1", "localhost") + "/chat/completions"
        for _ in range(2):
            assert (await pool.post(url, b"{}", {}, timeout_seconds=30.0)).status == 503
        await pool.aclose()
    assert [request.headers.get("Cookie") for request in server.requests] == [None, None]


async def test_a_reply_that_repeats_the_key_is_kept_as_it_is() -> None:
    client = client_of()
    body = f'{{"choices": [{{"message": {{"content": "{KEY}"}}}}]}}'.encode()
    async with ChatServer([RawReply(body=body)]) as server:
        reply = await client.complete(context_of(server), StaticBearerAuth(KEY), BODY)
        await client.aclose()
    assert reply["choices"][0]["message"]["content"] == KEY


async def test_the_first_status_that_is_no_success_is_a_failure() -> None:
    client = client_of()
    async with ChatServer([RawReply(body=b"{}", status=299), RawReply(body=b"{}", status=300)]) as server:
        assert await client.complete(context_of(server), StaticBearerAuth(KEY), BODY) == {}
        with pytest.raises(RolloutFailure) as raised:
            await client.complete(context_of(server), StaticBearerAuth(KEY), BODY)
        await client.aclose()
    assert raised.value.termination_reason == "model_error"
    assert str(raised.value) == "HTTP 300: a redirect, which is not followed"


async def test_a_retry_is_logged_with_its_cause_pause_and_rollout(caplog: pytest.LogCaptureFixture) -> None:
    client = client_of(retries=2, retry_seconds=0.004)
    async with ChatServer([Fault(status=500, message="down")] * 2 + [{"content": "hi"}]) as server:
        with caplog.at_level(logging.WARNING, "benchmax.envs.model_client"):
            await client.complete(context_of(server), StaticBearerAuth(KEY), BODY)
        await client.aclose()
    records = [record for record in caplog.records if record.name == "benchmax.envs.model_client"]
    assert [record.getMessage() for record in records] == [
        "HTTP 500: down; trying again in 0.0 seconds (r1)",
    ] * 2
    assert [record.args[1] for record in records if record.args] == [
        retry_delay(attempt, base_seconds=0.004, retry_after=None, key="r1") for attempt in (0, 1)
    ]


@pytest.mark.parametrize(
    ("rewards", "kind", "message"),
    [
        ([1.0], TypeError, "rewards must be a mapping, not list"),
        ({" ": 1.0}, ValueError, "reward names must be non-empty strings, not ' '"),
        ({3: 1.0}, ValueError, "reward names must be non-empty strings, not 3"),
        ({"x": "1"}, ValueError, "reward 'x' must be numeric, not str"),
        ({"x": True}, ValueError, "reward 'x' must be numeric, not bool"),
        ({"x": float("-inf")}, ValueError, "reward 'x' must be finite, not -inf"),
        ({"x": 10**400}, ValueError, "reward 'x' must be finite; the integer is too large for a float"),
    ],
)
def test_what_is_no_reward_is_named(rewards: object, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind) as raised:
        check_rewards(rewards)
    assert str(raised.value) == message


@pytest.mark.parametrize("wrap", [lambda value: value, lambda value: {"right": value}])
def test_a_reward_that_nobody_awaited_is_closed(wrap: Callable[[object], object]) -> None:
    async def reward() -> float:
        return 1.0

    coroutine = reward()
    with pytest.raises((TypeError, ValueError), match="not coroutine"):
        check_rewards(wrap(coroutine))
    assert coroutine.cr_frame is None
