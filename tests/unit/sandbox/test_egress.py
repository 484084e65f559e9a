"""The way out of a box with an allowlist."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from castform.errors import ConfigError
from castform.sandbox import egress
from castform.sandbox.egress import EgressProxy, HostRules, RefusedError, choose_addresses, is_public


@dataclass
class Site:
    """A server on the loopback interface that notes what it is sent."""

    port: int
    seen: list[bytes] = field(default_factory=list)


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        made.seen.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    made = Site(port=server.sockets[0].getsockname()[1])
    yield made
    server.close()


async def ask(hosts: list[str], request: str) -> bytes:
    """Send a request to a proxy with an allowlist; return all that comes back."""
    proxy = EgressProxy(HostRules.parse(hosts))
    listening = socket.create_server(("127.0.0.1", 0))
    await proxy.start(listening)
    try:
        reader, writer = await asyncio.open_connection(*listening.getsockname())
        writer.write(request.encode())
        async with asyncio.timeout(20):
            answer = await reader.read()
        writer.close()
        return answer
    finally:
        await proxy.aclose()
        await proxy.aclose()


async def test_connect_carries_bytes_to_a_named_address(site):
    answer = await ask(
        ["127.0.0.0/8"], f"CONNECT 127.0.0.1:{site.port} HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n"
    )
    assert answer.startswith(
        b"HTTP/1.1 200 Connection established\r\n\r\nHTTP/1.1 200 OK"
    ) and answer.endswith(b"ok")
    assert site.seen == [b"GET / HTTP/1.1\r\n\r\n"]


async def test_a_plain_request_goes_to_the_host_that_was_checked(site):
    head = f"GET http://127.0.0.1:{site.port}/a?b=1 HTTP/1.1\r\nHost: other.example\r\nProxy-Authorization: x\r\nX-Own: 1\r\n\r\n"
    assert (await ask(["127.0.0.1"], head)).endswith(b"ok")
    assert site.seen == [
        f"GET /a?b=1 HTTP/1.1\r\nHost: 127.0.0.1:{site.port}\r\nConnection: close\r\nX-Own: 1\r\n\r\n".encode()
    ]


@pytest.mark.parametrize(
    ("hosts", "target", "words"),
    [
        (["example.org"], "127.0.0.1", "not among the allowed hosts"),
        (["example.org"], "localhost", "not among the allowed hosts"),
        (["localhost"], "localhost", "leads to a private address"),
        (["*.localhost"], "localhost", "not among the allowed hosts"),
        (["10.0.0.0/8"], "127.0.0.1", "not among the allowed hosts"),
        (["10.0.0.0/8"], "127.1", "not among the allowed hosts"),
        (["10.0.0.0/8"], "2130706433", "not among the allowed hosts"),
        (["10.0.0.0/8"], "[::1]", "not among the allowed hosts"),
        (["10.0.0.0/8"], "[::ffff:127.0.0.1]", "not among the allowed hosts"),
        ([], "example.com", "not among the allowed hosts"),
    ],
)
async def test_what_is_not_named_is_refused(site, hosts, target, words):
    connect = await ask(hosts, f"CONNECT {target}:{site.port} HTTP/1.1\r\n\r\n")
    plain = await ask(hosts, f"GET http://{target}:{site.port}/ HTTP/1.1\r\n\r\n")
    for answer in (connect, plain):
        assert answer.startswith(b"HTTP/1.1 403") and words in answer.decode()
    assert site.seen == []


@pytest.mark.parametrize(
    "request_text",
    [
        "GET / HTTP/1.1\r\n\r\n",
        "GET ftp://127.0.0.1/ HTTP/1.1\r\n\r\n",
        "CONNECT 127.0.0.1 HTTP/1.1\r\n\r\n",
        "CONNECT 127.0.0.1:99999 HTTP/1.1\r\n\r\n",
        "nonsense\r\n\r\n",
        "GET http://127.0.0.1:x/ HTTP/1.1\r\n\r\n",
        "GET http://127.0.0.1/ HTTP/1.1\r\nbad header\r\n\r\n",
    ],
)
async def test_what_is_no_request_to_a_proxy_is_refused(request_text):
    assert (await ask(["127.0.0.1"], request_text)).split()[1] in (b"400", b"403")


async def test_connections_that_say_nothing_do_not_use_up_descriptors(monkeypatch):
    monkeypatch.setattr(egress, "MAX_CONNECTIONS", 3)
    proxy = EgressProxy(HostRules())
    listening = socket.create_server(("127.0.0.1", 0))
    await proxy.start(listening)
    ends = [await asyncio.open_connection(*listening.getsockname()) for _ in range(5)]
    async with asyncio.timeout(20):
        assert [await reader.read() for reader, _ in ends[3:]] == [b"", b""]
    await proxy.aclose()
    for _, writer in ends:
        writer.close()


async def test_a_program_that_breaks_its_connection_off_ends_the_one_to_the_host():
    """The host says nothing more by itself, so nothing else would end it."""
    ended = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello")
        await writer.drain()
        await reader.read()
        ended.set()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    proxy = EgressProxy(HostRules.parse(["127.0.0.1"]))
    listening = socket.create_server(("127.0.0.1", 0))
    await proxy.start(listening)
    reader, writer = await asyncio.open_connection(*listening.getsockname())
    writer.write(f"CONNECT 127.0.0.1:{server.sockets[0].getsockname()[1]} HTTP/1.1\r\n\r\n".encode())
    async with asyncio.timeout(20):
        await reader.readuntil(b"hello")
        writer.transport.abort()
        await ended.wait()
    await proxy.aclose()
    server.close()


async def test_a_client_that_has_said_all_gets_the_whole_answer():
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        said = await reader.read()
        writer.write(said[::-1])
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    proxy = EgressProxy(HostRules.parse(["127.0.0.1"]))
    listening = socket.create_server(("127.0.0.1", 0))
    await proxy.start(listening)
    reader, writer = await asyncio.open_connection(*listening.getsockname())
    writer.write(f"CONNECT 127.0.0.1:{server.sockets[0].getsockname()[1]} HTTP/1.1\r\n\r\n".encode())
    async with asyncio.timeout(20):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"abc" * 100_000)
        writer.write_eof()
        assert await reader.read() == b"cba" * 100_000
    writer.close()
    await proxy.aclose()
    server.close()


async def test_a_name_is_resolved_once_and_the_checked_address_is_connected_to(site, monkeypatch):
    """A name that resolves to another address the second time, as in DNS rebinding, is of no use."""
    answers = iter([["127.0.0.1"], ["169.254.169.254"]])

    def resolve(host, port, **_):
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in next(answers)]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    rules = HostRules.parse(["rebind.example", "127.0.0.1"])
    assert await choose_addresses(rules, "rebind.example", 80) == ["127.0.0.1"]
    with pytest.raises(RefusedError, match="leads to a private address"):
        await choose_addresses(rules, "rebind.example", 80)


async def test_names_whose_lookup_hangs_take_no_thread_of_anybody_elses(monkeypatch):
    let_go = threading.Event()
    hanging: asyncio.Queue[str] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def resolve(host, port, **_):
        loop.call_soon_threadsafe(hanging.put_nowait, threading.current_thread().name)
        let_go.wait(60)
        raise OSError

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    proxy = EgressProxy(HostRules.parse(["*.example"]))
    listening = socket.create_server(("127.0.0.1", 0))
    await proxy.start(listening)
    writers = []
    try:
        for number in range(40):
            _, writer = await asyncio.open_connection(*listening.getsockname())
            writer.write(f"CONNECT {number}.example:443 HTTP/1.1\r\n\r\n".encode())
            writers.append(writer)
        async with asyncio.timeout(20):
            names = [await hanging.get() for _ in range(4)]
            await proxy.aclose()
        assert [name.partition("_")[0] for name in names] == ["castform-names"] * 4
    finally:
        let_go.set()
        for writer in writers:
            writer.close()


async def test_private_addresses_of_an_allowed_name_are_left_out(monkeypatch):
    def resolve(host, port, **_):
        return [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", (a, port))
            for a in ("10.0.0.1", "93.184.216.34", "::1")
        ]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    assert await choose_addresses(HostRules.parse(["*.example"]), "A.Example.", 443) == ["93.184.216.34"]


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.0.1", "169.254.169.254", "100.64.0.1", "0.0.0.0"),
        *("224.0.0.1", "255.255.255.255", "::1", "::", "fe80::1", "fec0::1", "fc00::1", "ff02::1"),
        *("::ffff:10.0.0.1", "2002:7f00:1::", "64:ff9b::7f00:1"),
    ],
)
def test_addresses_that_are_not_of_the_open_internet(address):
    assert not is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize("address", ["93.184.216.34", "2606:2800:220:1::1"])
def test_addresses_of_the_open_internet(address):
    assert is_public(ipaddress.ip_address(address))


def test_names_match_whole_and_wildcards_below():
    rules = HostRules.parse(["example.org", "*.hosted.org", "BÜCHER.example"])
    allowed = ["example.org", "files.hosted.org", "a.b.hosted.org", "xn--bcher-kva.example"]
    refused = ["evilexample.org", "example.org.evil.com", "hosted.org", "evilhosted.org", "www.example.org"]
    assert [name for name in allowed + refused if rules.allows_name(name)] == allowed


def test_what_is_no_host_is_named_all_at_once():
    with pytest.raises(ConfigError, match=r"'https://example\.org', 'a b', '\*'"):
        HostRules.parse(["https://example.org", "ok.org", "a b", "*"])


def test_a_range_of_the_open_internet_does_not_name_private_addresses_in_it():
    wide = HostRules.parse(["0.0.0.0/0", "::/0"])
    named = HostRules.parse(["10.0.0.0/8", "127.0.0.1", "100.64.0.0/10", "64:ff9b::7f00:1"])
    for text in ("10.1.2.3", "127.0.0.1", "100.64.0.1", "64:ff9b::7f00:1"):
        address = ipaddress.ip_address(text)
        assert (wide.names_address(address), named.names_address(address)) == (False, True), text
    assert wide.names_address(ipaddress.ip_address("8.8.8.8"))
