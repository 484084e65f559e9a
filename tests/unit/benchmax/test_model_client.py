"""Model calls: what is sent, who is told, and how connections come and go."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from benchmax.auth import ModelRequestContext
from benchmax.envs import RolloutFailure, StaticBearerAuth
from benchmax.envs.model_client import CallLimits, ModelClient, request_defaults
from benchmax.envs.observe import observe_rollouts
from benchmax.envs.retry import MAX_RETRY_SECONDS, retry_delay
from benchmax.testing import ChatServer, Fault, RawReply

LIMITS = CallLimits(retries=1, retry_seconds=0.0, timeout_seconds=30.0)
BODY = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}


async def complete(client: ModelClient, server: ChatServer, body: Mapping[str, Any] = BODY) -> dict[str, Any]:
    context = ModelRequestContext(server.base_url, "m", "r0")
    return await client.complete(context, StaticBearerAuth("k"), body)


class CallLog:
    def __init__(self) -> None:
        self.calls: list[tuple[str, Mapping[str, Any], Mapping[str, Any], float]] = []

    def on_call(
        self, rollout_id: str, request: Mapping[str, Any], reply: Mapping[str, Any], seconds: float
    ) -> None:
        self.calls.append((rollout_id, request, reply, seconds))

    def on_attempt(self, attempt: Any) -> None:
        raise AssertionError("no rollout ends here")


async def test_an_observer_is_told_of_answered_calls_once_each() -> None:
    log = CallLog()
    client = ModelClient(LIMITS)
    async with ChatServer([Fault(status=503), {"content": "hello"}, Fault(status=400)]) as server:
        with observe_rollouts(log):
            reply = await complete(client, server)
            with pytest.raises(RolloutFailure):
                await complete(client, server)
        await client.aclose()
    [(rollout_id, request, seen, seconds)] = log.calls
    assert (rollout_id, request, seen) == ("r0", BODY, reply) and seconds > 0
    assert reply["choices"][0]["message"]["content"] == "hello"


async def test_request_defaults_are_added_nest_and_end() -> None:
    client = ModelClient(LIMITS)
    async with ChatServer([{"content": "x"}]) as server:
        with request_defaults({"temperature": 0.5, "max_tokens": 9, "model": "never"}):
            with request_defaults({"temperature": 0.0}):
                await complete(client, server)
            await complete(client, server)
        await complete(client, server)
        await client.aclose()
    sent = [request.body for request in server.requests]
    assert sent[0] == {**BODY, "temperature": 0.0, "max_tokens": 9}
    assert sent[1] == {**BODY, "temperature": 0.5, "max_tokens": 9}
    assert sent[2] == BODY


async def test_a_slow_reply_is_given_up_without_a_retry(skip_seconds: Callable[[float], None]) -> None:
    client = ModelClient(CallLimits(retries=3, retry_seconds=0.0, timeout_seconds=30.5))
    connections = 0

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await reader.readuntil(b"\r\n\r\n")
        skip_seconds(31)
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()[:2]
    context = ModelRequestContext(f"http://{host}:{port}/v1", "m", "r")
    with pytest.raises(RolloutFailure, match=r"no whole reply within 30\.5 seconds"):
        await client.complete(context, StaticBearerAuth("k"), BODY)
    await client.aclose()
    server.close()
    assert connections == 1


async def test_a_broken_connection_is_tried_again() -> None:
    client = ModelClient(CallLimits(retries=2, retry_seconds=0.0, timeout_seconds=30.0))
    connections = 0

    async def rude(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await reader.readuntil(b"\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(rude, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()[:2]
    context = ModelRequestContext(f"http://{host}:{port}/v1", "m", "r")
    with pytest.raises(RolloutFailure, match="no connection"):
        await client.complete(context, StaticBearerAuth("k"), BODY)
    await client.aclose()
    server.close()
    assert connections == 3


async def test_a_message_that_is_no_json_is_model_error() -> None:
    client = ModelClient(LIMITS)
    async with ChatServer([{"content": "x"}]) as server:
        with pytest.raises(RolloutFailure, match="not JSON serializable") as caught:
            await complete(client, server, {"model": "m", "messages": [{"content": object()}]})
        await client.aclose()
    assert caught.value.termination_reason == "model_error" and server.requests == []


async def test_headers_with_a_line_break_are_not_sent() -> None:
    class Smuggler:
        async def headers_for_request(self, context: ModelRequestContext) -> Mapping[str, str]:
            return {"Authorization": "Bearer x\r\nX-Other: 1"}

    client = ModelClient(LIMITS)
    async with ChatServer([{"content": "x"}]) as server:
        context = ModelRequestContext(server.base_url, "m", "r")
        with pytest.raises(RolloutFailure) as caught:
            await client.complete(context, Smuggler(), BODY)
        await client.aclose()
    assert caught.value.termination_reason == "model_error" and server.requests == []


async def test_a_proxy_is_used_for_other_machines_only(monkeypatch: pytest.MonkeyPatch) -> None:
    client = ModelClient(CallLimits(retries=0, retry_seconds=0.0, timeout_seconds=30.0))
    async with ChatServer([{"content": "by proxy"}]) as proxy, ChatServer([{"content": "direct"}]) as server:
        monkeypatch.setenv("http_proxy", proxy.base_url.removesuffix("/v1"))
        monkeypatch.setenv("no_proxy", "other.invalid")
        far = ModelRequestContext("http://model.invalid/v1", "m", "r")
        reply = await client.complete(far, StaticBearerAuth("k"), BODY)
        assert reply["choices"][0]["message"]["content"] == "by proxy"
        assert (await complete(client, server))["choices"][0]["message"]["content"] == "direct"
        with pytest.raises(RolloutFailure, match="no connection"):
            await client.complete(
                ModelRequestContext("http://other.invalid/v1", "m", "r"), StaticBearerAuth("k"), BODY
            )
        await client.aclose()


async def test_a_long_error_page_is_shortened() -> None:
    client = ModelClient(LIMITS)
    async with ChatServer([RawReply(body=b"<p>" * 10_000)]) as server:
        with pytest.raises(RolloutFailure) as caught:
            await complete(client, server)
        await client.aclose()
    assert len(str(caught.value)) < 600


def test_one_client_serves_one_event_loop_after_another() -> None:
    client = ModelClient(LIMITS)

    async def once(close: bool) -> str:
        async with ChatServer([{"content": "x"}]) as server:
            reply = await complete(client, server)
            if close:
                await client.aclose()
                await client.aclose()
        return str(reply["choices"][0]["message"]["content"])

    assert [asyncio.run(once(close)) for close in (True, False, True)] == ["x", "x", "x"]


QUIET = """
import asyncio
from benchmax.auth import ModelRequestContext
from benchmax.envs import StaticBearerAuth
from benchmax.envs.model_client import CallLimits, ModelClient
from benchmax.testing import ChatServer

async def main():
    client = ModelClient(CallLimits(retries=0, retry_seconds=0.0, timeout_seconds=30.0))
    async with ChatServer([{"content": "x"}]) as server:
        await client.complete(ModelRequestContext(server.base_url, "m", "r"), StaticBearerAuth("k"), {"messages": []})
    return client

client = asyncio.run(main())
"""


def test_an_environment_that_nobody_closes_leaves_quietly() -> None:
    done = subprocess.run(
        [sys.executable, "-c", QUIET], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stderr == ""


def delay(attempt: int = 0, retry_after: str | None = None, key: str = "r") -> float | None:
    return retry_delay(attempt, base_seconds=0.5, retry_after=retry_after, key=key)


def test_pauses_double_differ_between_rollouts_and_repeat_exactly() -> None:
    pauses = [delay(attempt) for attempt in range(4)]
    assert pauses == [delay(attempt) for attempt in range(4)]
    assert all(0.375 * 2**n <= pause <= 0.5 * 2**n for n, pause in enumerate(pauses) if pause is not None)
    assert len({delay(key=f"r{i}") for i in range(50)}) == 50
    assert delay(50) is not None and delay(50) <= MAX_RETRY_SECONDS  # type: ignore[operator]


def test_retry_after_is_read_as_seconds_or_a_date() -> None:
    assert delay(retry_after="7") == 7.0
    assert delay(retry_after="0.25") == 0.25
    soon = delay(retry_after=format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True))
    assert soon is not None and 25 < soon <= 30
    assert delay(retry_after="Thu, 01 Jan 1970 00:00:00 GMT") == 0.0
    assert delay(retry_after="61") is None
    assert delay(retry_after="soon") == delay() and delay(retry_after="nan") == delay()


@pytest.mark.parametrize("status", [401, 500, 302])
async def test_a_key_that_the_server_repeats_is_not_in_the_error(status: int) -> None:
    client = ModelClient(LIMITS)
    key = "sk-0123456789abcdef"
    async with ChatServer([Fault(status=status, message=f"wrong key {key} here")]) as server:
        context = ModelRequestContext(server.base_url, "m", "r0")
        with pytest.raises(RolloutFailure) as caught:
            await client.complete(context, StaticBearerAuth(key), BODY)
        await client.aclose()
    assert str(status) in caught.value.message and "wrong key *** here" in caught.value.message
    assert key not in caught.value.message


async def test_a_redirect_is_a_failure_that_says_so() -> None:
    client = ModelClient(CallLimits(retries=0, retry_seconds=0.0, timeout_seconds=30.0))
    async with ChatServer([Fault(status=307, message="")]) as server:
        with pytest.raises(RolloutFailure, match="HTTP 307"):
            await complete(client, server)
        await client.aclose()
