"""Auth beyond the golden behaviours: nested bindings, async checks, the OpenAI clients."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from typing import Any

import httpx
import pytest

from benchmax.auth import (
    ModelRequestContext,
    RequestModelAuth,
    check_model_auth,
    create_async_openai_client,
    create_openai_client,
    http_auth,
)
from benchmax.envs import InjectedAuth, StaticBearerAuth, bind_model_auth
from benchmax.testing import ChatServer

CONTEXT = ModelRequestContext("http://127.0.0.1:9/v1", "m", "r")


async def token_of(name: str) -> str:
    headers = await InjectedAuth(name).headers_for_request(CONTEXT)
    return headers["Authorization"].removeprefix("Bearer ")


async def test_an_inner_binding_adds_to_the_outer_ones_and_ends() -> None:
    with bind_model_auth({"judge": StaticBearerAuth("j"), "llm": StaticBearerAuth("outer")}):
        with bind_model_auth({"llm": StaticBearerAuth("inner")}):
            assert (await token_of("judge"), await token_of("llm")) == ("j", "inner")
        assert await token_of("llm") == "outer"
    with pytest.raises(RuntimeError, match="'judge'"):
        await token_of("judge")


async def test_bindings_of_concurrent_tasks_do_not_meet() -> None:
    async def bound(token: str) -> str:
        with bind_model_auth({"llm": StaticBearerAuth(token)}):
            await asyncio.sleep(0)
            return await token_of("llm")

    assert await asyncio.gather(*(bound(str(i)) for i in range(5))) == list("01234")


def test_a_provider_must_be_async_and_an_instance() -> None:
    class PlainAuth:
        def headers_for_request(self, context: ModelRequestContext) -> Mapping[str, str]:
            return {}

    with pytest.raises(TypeError, match="async def"):
        check_model_auth(PlainAuth())
    for value in (StaticBearerAuth, "key", None):
        with pytest.raises(TypeError, match="not a ModelAuth"):
            check_model_auth(value)


@pytest.mark.parametrize("answer", [None, ["a"], {"Authorization": None}, {1: "x"}])
async def test_a_provider_that_gives_no_headers_is_named(answer: Any) -> None:
    class OddAuth:
        async def headers_for_request(self, context: ModelRequestContext) -> Any:
            return answer

    client = httpx.AsyncClient(
        transport=httpx.MockTransport(lambda request: httpx.Response(200)),
        auth=RequestModelAuth(OddAuth(), CONTEXT),
    )
    async with client:
        with pytest.raises(TypeError, match="headers_for_request must"):
            await client.get("http://h/")


async def test_a_provider_tied_to_the_blocked_loop_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_auth, "SYNC_WAIT_SECONDS", 0.05)
    answered = threading.Event()

    class TiedAuth:
        async def headers_for_request(self, context: ModelRequestContext) -> Mapping[str, str]:
            await asyncio.to_thread(answered.wait, 60)
            return {}

    flow = RequestModelAuth(TiedAuth(), CONTEXT).sync_auth_flow(httpx.Request("GET", "http://h/"))
    with pytest.raises(RuntimeError, match="create_async_openai_client"):
        next(flow)
    answered.set()


class KeyHeader:
    """Authorises by a header of its own and no bearer."""

    async def headers_for_request(self, context: ModelRequestContext) -> Mapping[str, str]:
        return {"X-Api-Key": f"{context.rollout_id}:{context.model}"}


async def test_the_async_openai_client_is_authorised_by_the_provider_alone() -> None:
    async with ChatServer([{"content": "hello"}]) as server:
        for auth in (StaticBearerAuth("k"), KeyHeader()):
            client = create_async_openai_client(
                model="m", base_url=server.base_url, auth=auth, request_id="q1"
            )
            async with client:
                reply = await client.chat.completions.create(
                    model="m", messages=[{"role": "user", "content": "x"}]
                )
            assert reply.choices[0].message.content == "hello"
    bearer, keyed = (request.headers for request in server.requests)
    assert bearer["Authorization"] == "Bearer k"
    assert "Authorization" not in keyed and keyed["X-Api-Key"] == "q1:m"


async def test_the_sync_openai_client_is_authorised_by_the_provider() -> None:
    async with ChatServer([{"content": "hello"}]) as server:

        def ask() -> str | None:
            client = create_openai_client(
                model="m",
                base_url=server.base_url,
                auth=StaticBearerAuth("k"),
                request_id="q1",
                max_retries=0,
            )
            with client:
                reply = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "x"}])
            return reply.choices[0].message.content

        assert await asyncio.to_thread(ask) == "hello"
    assert server.requests[0].headers["Authorization"] == "Bearer k"
