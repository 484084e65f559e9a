"""Keys, sessions, expiry, retries, disconnects and bad input, over real HTTP."""

from __future__ import annotations

import asyncio
import json
import threading

import aiohttp
import pytest

from castform.endpoint import SessionSpec
from castform.errors import MissingError, UsageError
from castform_trainer.engines.contract import Generation
from castform_trainer.engines.fake import FakeEngine
from castform_trainer.gateway import Gateway, GatewayEndpoint
from castform_trainer.gateway.fake_tokenizer import RAISES, make_fake_tokenizer
from castform_trainer.gateway.trajectory import build_segments

GO = {"messages": [{"role": "user", "content": "go"}]}


class HeldEngine:
    """Replies wait for `open_gate`; says when one has begun and when one was cancelled."""

    name = "held"
    max_context_tokens = 1000
    eos_token_ids = (2,)

    def __init__(self):
        self.begun = threading.Semaphore(0)
        self.cancelled = threading.Semaphore(0)
        self.count = 0
        self._gate = threading.Event()
        self._waits = []

    async def generate(self, prompt_ids, sampling, *, version=None):
        self.count += 1
        wait = asyncio.get_running_loop().create_future()
        self._waits.append((asyncio.get_running_loop(), wait))
        self.begun.release()
        try:
            await wait
        except asyncio.CancelledError:
            self.cancelled.release()
            raise
        return Generation(ids=(74, 2), logprobs=(-0.5, -0.25), finish_reason="stop", version=3)

    def open_gate(self):
        for loop, wait in self._waits:
            loop.call_soon_threadsafe(lambda w=wait: w.done() or w.set_result(None))


async def acquire(semaphore):
    assert await asyncio.to_thread(semaphore.acquire, timeout=60)


def header(key):
    return {"Authorization": f"Bearer {key}"}


async def test_the_admin_routes_open_collect_and_end_a_session(make_bench):
    bench = await make_bench(["hello"])
    url, admin = f"{bench.gateway.root_url}/sessions/r%2F1", header(bench.gateway.admin_key)
    body = {"model": "fake", "max_context_tokens": 100, "ttl_seconds": 60, "sampling": {"temperature": 0.5}}
    async with bench.http.put(url, json=body, headers=admin) as reply:
        grant = await reply.json()
    assert reply.status == 200 and grant["base_url"] == url + "/v1"
    async with bench.http.get(grant["base_url"] + "/models", headers=header(grant["session_key"])) as reply:
        assert [m["id"] for m in (await reply.json())["data"]] == ["fake"]
    async with bench.http.post(
        grant["base_url"] + "/chat/completions", json=GO, headers=header(grant["session_key"])
    ) as reply:
        assert reply.status == 200
    async with bench.http.post(url + "/collect", headers=admin) as reply:
        (call,) = (await reply.json())["calls"]
    assert call["session_id"] == "r/1" and call["sampling"]["temperature"] == 0.5
    assert len(call["sampled_ids"]) == len(call["logprobs"]) > 0
    async with bench.http.put(url, json=body, headers=admin) as reply:
        assert (reply.status, (await reply.json())["error"]["code"]) == (409, "session_exists")
    async with bench.http.delete(url, headers=admin) as reply:
        assert reply.status == 204
    async with bench.http.post(url + "/collect", headers=admin) as reply:
        assert (reply.status, (await reply.json())["error"]["code"]) == (404, "session_not_found")


@pytest.mark.parametrize(
    "body",
    [
        {"ttl": 5},
        {"ttl_seconds": -1},
        {"max_context_tokens": "x"},
        {"sampling": {"temprature": 1}},
        {"sampling": {"temperature": -1}},
        {"version": "1"},
    ],
    ids=str,
)
async def test_a_wrong_session_request_opens_nothing(make_bench, body):
    bench = await make_bench(["hello"])
    async with bench.http.put(
        f"{bench.gateway.root_url}/sessions/s", json=body, headers=header(bench.gateway.admin_key)
    ) as reply:
        assert (reply.status, (await reply.json())["error"]["code"]) == (400, "invalid_parameter")
    assert len(bench.gateway.sessions) == 0


async def test_a_wrong_key_is_401_and_keys_do_not_cross(make_bench):
    bench = await make_bench(["hello"])
    one, two = await bench.open("one"), await bench.open("two")
    for key in ("", "wrong", two.api_key, bench.gateway.admin_key, "ké"):
        async with bench.http.post(f"{one.base_url}/chat/completions", json=GO, headers=header(key)) as reply:
            assert (reply.status, (await reply.json())["error"]["code"]) == (401, "invalid_api_key")
    async with bench.http.put(
        f"{bench.gateway.root_url}/sessions/new", json={}, headers=header(one.api_key)
    ) as reply:
        assert reply.status == 401


async def test_secrets_stay_out_of_reprs(make_bench):
    bench = await make_bench(["hello"])
    grant = await bench.open()
    shown = f"{bench.gateway!r} {grant!r} {bench.gateway.sessions.find('s')!r}"
    assert grant.api_key not in shown and bench.gateway.admin_key not in shown


@pytest.mark.parametrize(
    ("data", "status", "code"),
    [
        (b"{", 400, "invalid_json"),
        (b"[]", 400, "invalid_json"),
        (b"\xff\xfe", 400, "invalid_json"),
        (b"[" * 100_000, 400, "invalid_json"),
        (b"{}", 400, "invalid_messages"),
        (b'{"messages": []}', 400, "invalid_messages"),
        (b'{"messages": ["x"]}', 400, "invalid_messages"),
        (b'{"messages": [{"role": "wizard", "content": "x"}]}', 400, "invalid_messages"),
        (b'{"messages": [{"role": ["user"], "content": "x"}]}', 400, "invalid_messages"),
        (b'{"messages": [{"role": "user", "content": 5}]}', 400, "invalid_messages"),
        (b'{"messages": [{"role": "tool", "content": "x"}]}', 400, "invalid_messages"),
        (b'{"messages": [{"role": "assistant", "tool_calls": [{}]}]}', 400, "invalid_messages"),
        (b'{"messages": [{"role": "user", "content": "\\ud800"}]}', 400, "invalid_text"),
        (
            b'{"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]}',
            400,
            "unsupported_content",
        ),
        (b'{"messages": [{"role": "user", "content": "x"}], "tools": [{"name": "f"}]}', 400, "invalid_tools"),
        (b'{"messages": [{"role": "user", "content": "x"}], "model": "gpt-5"}', 404, "model_not_found"),
        (b'{"messages": [{"role": "user", "content": "x"}], "temperature": "x"}', 400, "invalid_parameter"),
        (
            b'{"messages": [{"role": "user", "content": "x"}], "chat_template_kwargs": {"tokenize": true}}',
            400,
            "invalid_parameter",
        ),
    ],
)
async def test_bad_input_is_one_clear_error_and_no_record(make_bench, data, status, code):
    bench = await make_bench(["hello"])
    grant = await bench.open()
    async with bench.http.post(
        f"{grant.base_url}/chat/completions", data=data, headers=header(grant.api_key)
    ) as reply:
        error = (await reply.json())["error"]
    assert (reply.status, error["code"]) == (status, code) and error["message"]
    assert await bench.calls() == [] and bench.log_path.read_bytes() == b""


async def test_a_huge_body_is_413_and_an_unknown_route_404(make_bench, monkeypatch):
    monkeypatch.setattr("castform_trainer.gateway.routes.MAX_BODY_BYTES", 1000)
    bench = await make_bench(["hello"])
    grant = await bench.open()
    status, answer = await bench.chat(grant, {"messages": [{"role": "user", "content": "x" * 2000}]})
    assert (status, answer["error"]["code"]) == (413, "request_too_large")
    async with bench.http.post(f"{grant.base_url}/embeddings", headers=header(grant.api_key)) as reply:
        assert (reply.status, (await reply.json())["error"]["code"]) == (404, "unknown_route")


async def test_a_template_that_raises_is_a_400_that_names_the_model(make_bench):
    bench = await make_bench(["hello"], template=RAISES)
    grant = await bench.open()
    status, answer = await bench.chat(grant, {"messages": [{"role": "system", "content": "x"}]})
    assert (status, answer["error"]["code"]) == (400, "chat_template_error")
    assert "fake" in answer["error"]["message"] and "no system turns here" in answer["error"]["message"]


async def test_unknown_fields_are_reported_to_the_client_and_in_the_record(make_bench):
    bench = await make_bench(["hello"])
    grant = await bench.open()
    status, answer = await bench.chat(grant, {**GO, "turbo": True, "user": "me"})
    assert status == 200 and answer["castform"]["overrides"] == ["turbo=True->ignored"]
    assert (await bench.calls())[0].overrides == ("turbo=True->ignored",)


async def test_an_expired_session_aborts_what_runs_and_says_so(skip_seconds):
    async def expire():
        skip_seconds(61)

    engine = HeldEngine()
    gateway = Gateway(engine, make_fake_tokenizer(), log_path=None, model_name="fake").start()
    try:
        spec = SessionSpec(session_id="s")
        grant = await gateway.submit(gateway.open_session(spec, ttl_seconds=60))
        async with aiohttp.ClientSession(headers=header(grant.api_key)) as http:
            asking = asyncio.create_task(http.post(f"{grant.base_url}/chat/completions", json=GO))
            await acquire(engine.begun)
            await gateway.submit(expire())
            await acquire(engine.cancelled)
            reply = await asking
            assert (reply.status, (await reply.json())["error"]["code"]) == (503, "session_closed")
            late = await http.post(f"{grant.base_url}/chat/completions", json=GO)
            assert (late.status, (await late.json())["error"]["code"]) == (410, "session_expired")
    finally:
        await asyncio.to_thread(gateway.close)


async def test_closing_a_session_aborts_what_runs_and_closing_twice_is_fine(make_bench):
    engine = HeldEngine()
    bench = await make_bench(engine=engine)
    grant = await bench.open()
    asking = asyncio.create_task(bench.chat(grant, GO))
    await acquire(engine.begun)
    await bench.endpoint.close_session("s")
    assert (await asking)[0] == 503
    await bench.endpoint.close_session("s")
    assert b'"finish_reason":"abort"' in bench.log_path.read_bytes()


async def test_a_client_that_goes_away_leaves_an_aborted_record_that_is_not_trained(make_bench):
    engine = HeldEngine()
    bench = await make_bench(engine=engine)
    grant = await bench.open()
    asking = asyncio.create_task(bench.chat(grant, GO))
    await acquire(engine.begun)
    asking.cancel()
    await acquire(engine.cancelled)
    (call,) = await bench.calls()
    assert (call.finish_reason, call.sampled_ids, build_segments([call])) == ("abort", (), [])


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_hangs_up_as_it_asks_leaves_an_aborted_record(make_bench, monkeypatch, stream):
    engine = HeldEngine()
    bench = await make_bench(engine=engine)
    grant = await bench.open()
    begin = bench.gateway.service.begin

    def begin_and_lose(*asked):
        work = begin(*asked)
        asyncio.current_task().cancel()  # what the server does to a request whose connection is lost
        return work

    monkeypatch.setattr(bench.gateway.service, "begin", begin_and_lose)
    with pytest.raises(aiohttp.ClientError):
        await bench.chat(grant, {**GO, "stream": stream})
    await acquire(engine.cancelled)
    assert [call.finish_reason for call in await bench.calls()] == ["abort"]


async def test_a_marked_retry_gets_the_answer_that_is_still_being_sampled(make_bench):
    engine = HeldEngine()
    bench = await make_bench(engine=engine, grace=60.0)
    grant = await bench.open()
    first = asyncio.create_task(bench.chat(grant, GO))
    await acquire(engine.begun)
    first.cancel()
    retry = asyncio.create_task(bench.chat(grant, GO, headers={"x-stainless-retry-count": "1"}))
    await bench.endpoint.collect("s")
    again = asyncio.create_task(bench.chat(grant, GO, headers={"x-stainless-retry-count": "2"}))
    await bench.endpoint.collect("s")
    engine.open_gate()
    (status, one), (_, two) = await asyncio.gather(retry, again)
    assert status == 200 and one["choices"] == two["choices"] and one["id"] == two["id"]
    (call,) = await bench.calls()
    assert (engine.count, call.finish_reason, call.version) == (1, "stop", 3)
    late = await bench.chat(grant, GO, headers={"x-stainless-retry-count": "1"})
    assert late[1]["id"] == one["id"] and engine.count == 1


async def test_the_same_body_without_the_header_is_a_new_sample(make_bench):
    bench = await make_bench(["hello", "sun"])
    grant = await bench.open()
    answers = [await bench.chat(grant, GO, headers={"x-stainless-retry-count": "0"}) for _ in range(2)]
    assert [a[1]["choices"][0]["message"]["content"] for a in answers] == ["hello", "sun"]
    assert [c.index for c in await bench.calls()] == [0, 1]


async def test_an_idempotency_key_names_one_answer(make_bench):
    bench = await make_bench(["hello", "sun"])
    grant = await bench.open()
    key = {"Idempotency-Key": "k1"}
    one, two = [await bench.chat(grant, GO, headers=key) for _ in range(2)]
    assert one[1]["id"] == two[1]["id"] and len(await bench.calls()) == 1
    status, answer = await bench.chat(grant, {**GO, "n": 2}, headers=key)
    assert (status, answer["error"]["code"]) == (422, "idempotency_key_reused")
    for said in ("hello", "sun"):  # an empty key names nothing
        assert (await bench.chat(grant, {**GO, "user": said}, headers={"Idempotency-Key": ""}))[0] == 200


class BrokenEngine(HeldEngine):
    async def generate(self, prompt_ids, sampling, *, version=None):
        self.count += 1
        if self.count == 1:
            raise RuntimeError("out of memory")
        return Generation(ids=(74,), logprobs=(-0.5, -0.25), finish_reason="stop", version=0)


async def test_an_engine_that_fails_or_miscounts_is_a_server_error_and_a_record_without_tokens(make_bench):
    bench = await make_bench(engine=BrokenEngine())
    grant = await bench.open()
    status, answer = await bench.chat(grant, GO)
    assert (status, answer["error"]["code"]) == (500, "engine_error")
    assert "out of memory" in answer["error"]["message"]
    status, answer = await bench.chat(grant, GO, headers={"x-stainless-retry-count": "1"})
    assert (status, answer["error"]["code"]) == (502, "untrainable_generation")
    assert answer["error"]["param"] == "logprobs" and "2 logprobs for 1" in answer["error"]["message"]
    (call,) = await bench.calls()
    assert (call.finish_reason, call.sampled_ids, call.error) == (
        "error",
        None,
        answer["error"]["message"],
    )


async def test_a_version_that_is_not_loaded_is_an_error(make_bench):
    bench = await make_bench(["hello"])
    grant = await bench.open(version=5)
    status, answer = await bench.chat(grant, GO)
    assert (status, answer["error"]["code"]) == (500, "engine_error")


async def test_128_sessions_at_once_each_get_their_own_calls(make_bench):
    gate = asyncio.Event()
    bench = await make_bench(["hello"])
    grants = [await bench.open(f"s{i}") for i in range(128)]

    async def rollout(i, grant):
        messages = [{"role": "user", "content": f"go {i}"}]
        await gate.wait()
        for turn in range(3):
            messages += [await bench.say(grant, messages), {"role": "user", "content": f"{i} {turn}"}]

    running = [asyncio.create_task(rollout(i, grant)) for i, grant in enumerate(grants)]
    gate.set()
    await asyncio.gather(*running)
    for i in range(128):
        calls = await bench.calls(f"s{i}")
        assert [c.splice for c in calls] == ["first", "spliced", "spliced"]
        assert calls[0].messages[0]["content"] == f"go {i}"
        (segment,) = build_segments(calls)
        assert sum(segment.mask) == sum(len(c.sampled_ids) for c in calls)


def test_a_blocked_caller_does_not_stall_other_sessions():
    gateway = Gateway(FakeEngine(), make_fake_tokenizer(), log_path=None, model_name="fake").start()
    endpoint = GatewayEndpoint(gateway)

    async def main():
        grant = await endpoint.open_session(SessionSpec(session_id="s"))
        # Blocks this loop: only a gateway with a thread of its own can answer.
        import httpx

        return httpx.post(  # noqa: ASYNC210 - blocking is the point
            f"{grant.base_url}/chat/completions", json=GO, headers=header(grant.api_key), timeout=20
        )

    try:
        assert asyncio.run(main()).status_code == 200
    finally:
        gateway.close()


async def test_a_port_in_use_is_a_usage_error(make_bench):
    bench = await make_bench(["hello"])
    other = Gateway(bench.engine, bench.tokenizer, log_path=None, model_name="fake", port=bench.gateway.port)
    with pytest.raises(UsageError, match=rf"port {bench.gateway.port} on 127\.0\.0\.1 is in use") as caught:
        other.start()
    assert caught.value.hint


def test_a_model_without_a_chat_template_is_refused_before_anything_starts():
    with pytest.raises(MissingError, match="fake has no chat template"):
        Gateway(FakeEngine(), make_fake_tokenizer(None), log_path=None, model_name="fake")


async def test_the_endpoint_refuses_a_taken_id_and_an_unknown_one(make_bench):
    bench = await make_bench(["hello"])
    await bench.open("a")
    with pytest.raises(UsageError, match="'a' is open already"):
        await bench.open("a")
    with pytest.raises(UsageError, match="no session 'b'"):
        await bench.endpoint.collect("b")


async def test_closing_twice_is_fine_and_the_log_is_whole(make_bench):
    bench = await make_bench(["hello"])
    grant = await bench.open()
    await bench.chat(grant, GO)
    await bench.endpoint.aclose()
    await bench.endpoint.aclose()
    assert json.loads(bench.log_path.read_text())["finish_reason"] == "stop"


async def test_a_session_may_be_closed_after_the_endpoint(make_bench):
    bench = await make_bench(["hello"])
    await bench.open()
    await bench.endpoint.aclose()
    await bench.endpoint.close_session("s")
    with pytest.raises(RuntimeError, match="not running"):
        await bench.endpoint.collect("s")
