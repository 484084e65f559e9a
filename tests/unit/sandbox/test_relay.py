"""The relay: one model session through one socket, and nothing else."""

from __future__ import annotations

import asyncio
import gzip
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import aiohttp
import pytest
from aiohttp import web
from yarl import URL

from castform.sandbox import relay as relay_module
from castform.sandbox.contract import ModelEndpoint
from castform.sandbox.model_calls import ModelCalls
from castform.sandbox.relay import ModelRelay, is_session_path


@dataclass
class Server:
    """What stands behind the relay, and what it was asked."""

    endpoint: ModelEndpoint
    asked: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)
    asked_once: asyncio.Event = field(default_factory=asyncio.Event)
    left: asyncio.Event = field(default_factory=asyncio.Event)
    go: asyncio.Event = field(default_factory=asyncio.Event)


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async def answer(request: web.Request) -> web.StreamResponse:
        body = await request.read()
        made.asked.append((request.method, request.raw_path, dict(request.headers), body))
        made.asked_once.set()
        kind = request.query.get("kind")
        if kind == "redirect":
            raise web.HTTPFound("/elsewhere")
        if kind == "wait":
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                made.left.set()
                raise
        if kind in ("events", "cut"):
            response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Set-Cookie": "a=b"})
            await response.prepare(request)
            await response.write(b"data: 1\n\n")
            await made.go.wait()
            if kind == "cut":
                assert request.transport is not None
                request.transport.abort()
                return response
            await response.write(b"data: 2\n\n")
            return response
        return web.json_response(
            {"said": "hi"}, status=429 if kind == "busy" else 200, headers={"Retry-After": "3"}
        )

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    listening = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listening.getsockname()[1]}/sessions/one/v1"
    made = Server(endpoint=ModelEndpoint(base_url=url, api_key="real-key", model="m"))
    await web.SockSite(runner, listening).start()
    yield made
    await runner.cleanup()


@pytest.fixture
async def inside(server: Server) -> AsyncIterator[ModelEndpoint]:
    relay = ModelRelay(server.endpoint)
    listening = socket.create_server(("127.0.0.1", 0))
    await relay.start(listening)
    yield relay.inside(f"http://127.0.0.1:{listening.getsockname()[1]}")
    await relay.aclose()
    await relay.aclose()


@pytest.fixture
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=30)) as made:
        yield made


def key_of(inside: ModelEndpoint) -> dict[str, str]:
    return {"Authorization": f"Bearer {inside.api_key}"}


async def test_a_request_arrives_with_the_real_key_and_its_own_words(server, inside, client):
    headers = {
        **key_of(inside),
        "X-Stainless-Retry-Count": "1",
        "Cookie": "c=1",
        "Connection": "keep-alive, X-Mine",
        "X-Mine": "1",
    }
    async with client.post(
        f"{inside.base_url}/chat/completions?kind=plain", data=b'{"a": 1}', headers=headers
    ) as answer:
        assert (answer.status, await answer.json()) == (200, {"said": "hi"})
    (method, path, seen, body) = server.asked[0]
    assert (method, path, body) == ("POST", "/sessions/one/v1/chat/completions?kind=plain", b'{"a": 1}')
    assert seen["Authorization"] == "Bearer real-key"
    assert seen["X-Stainless-Retry-Count"] == "1"
    assert {"Cookie", "X-Mine"} & set(seen) == set()
    assert inside.api_key not in str(server.asked)


async def test_an_anthropic_key_is_replaced_in_its_own_header(server, inside, client):
    headers = {"x-api-key": inside.api_key, "anthropic-version": "2023-06-01"}
    async with client.post(f"{inside.root_url}/v1/messages", json={}, headers=headers) as answer:
        assert answer.status == 200
    seen = server.asked[0][2]
    assert (seen["x-api-key"], seen.get("Authorization"), seen["anthropic-version"]) == (
        "real-key",
        None,
        "2023-06-01",
    )


async def test_a_compressed_body_passes_as_it_is(server, inside, client):
    data = gzip.compress(b'{"a": 1}' * 100)
    headers = {**key_of(inside), "Content-Encoding": "gzip"}
    async with client.post(f"{inside.base_url}/responses", data=data, headers=headers) as answer:
        assert answer.status == 200
    _, _, seen, body = server.asked[0]
    assert (seen["Content-Encoding"], seen["Content-Length"]) == ("gzip", str(len(data)))
    assert body == b'{"a": 1}' * 100  # the model's server has unpacked it


async def test_connections_that_say_nothing_do_not_use_up_descriptors(server, inside, client, monkeypatch):
    monkeypatch.setattr(relay_module, "MAX_CONNECTIONS", 3)
    ends = [await asyncio.open_connection("127.0.0.1", URL(inside.base_url).port) for _ in range(5)]
    async with asyncio.timeout(20):
        assert [await reader.read() for reader, _ in ends[3:]] == [b"", b""]
    for _, writer in ends:
        writer.close()


async def test_a_path_without_v1_means_the_same(server, inside, client):
    async with client.get(f"{inside.root_url}/models", headers=key_of(inside)) as answer:
        assert answer.status == 200
    assert server.asked[0][1] == "/sessions/one/v1/models"


async def test_statuses_and_headers_of_the_model_pass(server, inside, client):
    async with client.get(f"{inside.base_url}/models?kind=busy", headers=key_of(inside)) as answer:
        assert (answer.status, answer.headers["Retry-After"]) == (429, "3")


async def test_events_pass_as_they_come(server, inside, client):
    async with client.get(f"{inside.base_url}/models?kind=events", headers=key_of(inside)) as answer:
        assert await answer.content.readuntil(b"\n\n") == b"data: 1\n\n"  # before the second is written
        server.go.set()
        assert await answer.content.read() == b"data: 2\n\n"
        assert answer.content_type == "text/event-stream"
        assert "Set-Cookie" not in answer.headers


async def test_an_answer_that_breaks_off_breaks_off_inside_too(server, inside, client):
    async with client.get(f"{inside.base_url}/models?kind=cut", headers=key_of(inside)) as answer:
        await answer.content.readuntil(b"\n\n")
        server.go.set()
        with pytest.raises(aiohttp.ClientError):
            await answer.content.read()


async def test_a_client_that_goes_away_is_noticed_by_the_model(server, inside, client):
    task = asyncio.create_task(client.get(f"{inside.base_url}/models?kind=wait", headers=key_of(inside)))
    await server.asked_once.wait()
    task.cancel()
    async with asyncio.timeout(20):
        await server.left.wait()


async def test_a_redirect_is_not_followed_and_tells_nothing(server, inside, client):
    async with client.get(
        f"{inside.base_url}/models?kind=redirect", headers=key_of(inside), allow_redirects=False
    ) as answer:
        assert (answer.status, answer.headers.get("Location")) == (502, None)


@pytest.mark.parametrize(
    "headers", [{}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic x"}, {"x-api-key": ""}]
)
async def test_any_other_key_is_refused(server, inside, client, headers):
    async with client.get(f"{inside.base_url}/models", headers=headers) as answer:
        body = await answer.json()
    assert (answer.status, body["error"]["type"], server.asked) == (401, "authentication_error", [])


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/v1",
        "/sessions/two/v1/models",
        "/v1/../../two/v1/models",
        "/v1/%2e%2e/%2E%2e/two/v1/models",
        "/v1/models/%252e%252e/x",
        "/v1/models/..%2fx",
        "/v1/models/..%5cx",
        "/v1/models%00",
        "/v1//models",
        "//v1/models",
        "/v1/admin",
    ],
)
async def test_nothing_outside_of_the_session_is_asked_for(server, inside, client, path):
    async with client.get(URL(inside.root_url + path, encoded=True), headers=key_of(inside)) as answer:
        assert answer.status in (403, 404)
        assert "only the model of this sandbox" in (await answer.json())["error"]["message"]
    assert server.asked == []


@pytest.mark.parametrize(
    "line", ["GET http://127.0.0.1:1/v1/models HTTP/1.1", "CONNECT 127.0.0.1:1 HTTP/1.1"]
)
async def test_it_is_no_proxy(server, inside, line):
    reader, writer = await asyncio.open_connection("127.0.0.1", URL(inside.base_url).port)
    writer.write(f"{line}\r\nHost: x\r\nAuthorization: Bearer {inside.api_key}\r\n\r\n".encode())
    assert (await reader.readline()).split()[1] in (b"400", b"403", b"404")
    writer.close()
    assert server.asked == []


async def test_a_key_that_is_no_text_is_a_wrong_key(server, inside):
    host, port = inside.root_url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(
        b"GET /v1/models HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \xff\r\nConnection: close\r\n\r\n"
    )
    assert b" 401 " in await reader.readline()
    writer.close()


@pytest.mark.parametrize(
    "headers",
    [
        "Content-Length: 4\r\nTransfer-Encoding: chunked",
        "Content-Length: 0\r\nContent-Length: 4",
        "Length : 4",
    ],
)
async def test_what_could_be_read_in_two_ways_is_refused_and_fills_no_log(server, inside, caplog, headers):
    url = URL(inside.base_url)
    reader, writer = await asyncio.open_connection(url.host, url.port)
    writer.write(
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {inside.api_key}\r\n"
        f"{headers}\r\n\r\n0\r\n\r\nGET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    )
    async with asyncio.timeout(20):
        answer = await reader.read()
    writer.close()
    assert answer.startswith((b"HTTP/1.0 400", b"HTTP/1.1 400"))
    assert server.asked == [] and caplog.messages == []


async def test_a_model_that_is_not_there_is_a_bad_gateway(client):
    relay = ModelRelay(ModelEndpoint(base_url="http://127.0.0.1:1/v1", api_key="real-key", model="m"))
    listening = socket.create_server(("127.0.0.1", 0))
    await relay.start(listening)
    inside = relay.inside(f"http://127.0.0.1:{listening.getsockname()[1]}")
    async with client.get(f"{inside.base_url}/models", headers=key_of(inside)) as answer:
        assert answer.status == 502 and "real-key" not in await answer.text()
    await relay.aclose()


async def test_it_serves_on_a_unix_socket(server, tmp_path):
    relay = ModelRelay(server.endpoint)
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(tmp_path / "s"))
    listening.listen()
    await relay.start(listening)
    async with (
        aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(tmp_path / "s"))) as client,
        client.get("http://box/v1/models", headers={"x-api-key": relay.key}) as answer,
    ):
        assert answer.status == 200
    await relay.aclose()


def test_a_key_shows_in_no_repr(server):
    assert "real-key" not in repr(server.endpoint)


@pytest.mark.parametrize(
    "path",
    ["/v1/chat/completions", "/v1/messages/count_tokens", "/v1/responses/resp_1?x=../y", "/models/org%3Am"],
)
def test_paths_of_a_session(path):
    assert is_session_path(path)


async def start_counted(
    server: Server, url: str | None = None
) -> tuple[ModelRelay, ModelEndpoint, ModelCalls]:
    calls = ModelCalls()
    base_url = server.endpoint.base_url if url is None else url
    relay = ModelRelay(ModelEndpoint(base_url=base_url, api_key="real-key", model="m", calls=calls))
    listening = socket.create_server(("127.0.0.1", 0))
    await relay.start(listening)
    return relay, relay.inside(f"http://127.0.0.1:{listening.getsockname()[1]}"), calls


async def test_a_failed_call_is_noted_until_a_later_one_is_answered(server, client):
    relay, inside, calls = await start_counted(server)
    assert inside.calls is None

    async def ask(kind: str) -> str | None:
        url = f"{inside.base_url}/chat/completions?kind={kind}"
        async with client.post(url, json={}, headers=key_of(inside)):
            return calls.find_failure()

    assert await ask("busy") == "the model's server answered 429"
    assert await ask("plain") is None
    assert await ask("redirect") == "the model's server answered 302"
    assert await ask("plain") is None
    async with client.post(
        f"{inside.base_url}/chat/completions?kind=cut", json={}, headers=key_of(inside)
    ) as cut:
        server.go.set()
        with pytest.raises(aiohttp.ClientError):
            await cut.read()
    assert calls.find_failure() == "the model's answer broke off"
    assert (await ask("plain"), calls.answered) == (None, 3)
    await relay.aclose()


async def test_a_server_that_is_not_there_is_noted_and_lists_of_models_are_not(server, client):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    relay, inside, calls = await start_counted(server, f"http://127.0.0.1:{port}/v1")
    async with client.get(f"{inside.base_url}/models", headers=key_of(inside)) as answer:
        assert (answer.status, calls.find_failure()) == (502, None)
    async with client.post(f"{inside.base_url}/chat/completions", json={}) as refused:
        assert (refused.status, calls.find_failure()) == (401, None)  # the client's own wrong key
    async with client.post(f"{inside.root_url}/v1/messages", json={}, headers=key_of(inside)) as answer:
        assert answer.status == 502
    assert calls.find_failure() == "the model cannot be reached: ClientConnectorError"
    await relay.aclose()


async def test_a_client_that_leaves_or_breaks_its_request_off_is_no_failure_of_the_model(
    server, inside, client
):
    relay, inside, calls = await start_counted(server)
    url = URL(f"{inside.base_url}/chat/completions?kind=wait")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await client.post(url, json={}, headers=key_of(inside))
    await asyncio.wait_for(server.left.wait(), 10)
    reader, writer = await asyncio.open_connection(url.host, url.port)
    key = key_of(inside)["Authorization"]
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: {key}\r\n"
    writer.write(f"{head}Transfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\nno number\r\n".encode())
    await asyncio.wait_for(reader.read(), 10)
    writer.close()
    assert calls.find_failure() is None
    await relay.aclose()


def test_what_a_server_refuses_is_its_failure_only_before_it_has_answered():
    calls = ModelCalls()
    for status in (401, 404):
        calls.note_status("POST", "/v1/responses", status)
        assert calls.find_failure() == f"the model's server answered {status}"
    calls.note_status("POST", "/v1/chat/completions", 400)  # a prompt that is too long: the server is there
    assert calls.find_failure() is None
    calls.note_status("POST", "/v1/responses", 404)
    assert calls.find_failure() is None
    calls.note_status("POST", "/v1/messages/count_tokens", 500)
    assert calls.find_failure() is None
    calls.note_status("POST", "/v1/messages", 500)
    assert calls.find_failure() == "the model's server answered 500"
