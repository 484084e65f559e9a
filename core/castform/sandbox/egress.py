"""The way out for a box with an allowlist: an HTTP proxy that connects to named hosts only.

Programs find it by HTTP_PROXY and HTTPS_PROXY; nothing else is reachable from such a box. Names are
resolved out here, once, and the address that was checked is the one that is connected to. Private
and loopback addresses stay closed, also to a name that is allowed, unless the address itself is named.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import ipaddress
import socket
from collections.abc import Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit

from castform.errors import ConfigError
from castform.sandbox.teardown import finish

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network

MAX_CONNECTIONS = 128
"""Of one box at a time: a program inside must not use up this process's descriptors."""
_NAMES_AT_A_TIME = 4
"""Of one box: lookups that hang hold threads of its own proxy and nobody else's."""
_MAX_HEAD_BYTES = 64 << 10
_CHUNK = 1 << 16
_HEAD_SECONDS = 30.0
_CONNECT_SECONDS = 30.0
_DROPPED = frozenset({"connection", "keep-alive", "proxy-connection", "proxy-authorization", "host"})


@dataclass(frozen=True, kw_only=True, slots=True)
class HostRules:
    """Which hosts are allowed."""

    names: frozenset[str] = frozenset()
    suffixes: tuple[str, ...] = ()
    """Of `*.host`, with the dot: a host below it, not itself."""
    networks: tuple[_Network, ...] = ()

    @classmethod
    def parse(cls, hosts: Sequence[str]) -> Self:
        """Read names, `*.name`, addresses and CIDR ranges. ConfigError with every one that is none of these."""
        names: set[str] = set()
        suffixes: list[str] = []
        networks: list[_Network] = []
        wrong: list[str] = []
        for host in hosts:
            text = host.strip()
            try:
                networks.append(ipaddress.ip_network(text.strip("[]"), strict=False))
                continue
            except ValueError:
                pass
            name = normalize_host(text.removeprefix("*."))
            if name is None:
                wrong.append(host)
            elif text.startswith("*."):
                suffixes.append(f".{name}")
            else:
                names.add(name)
        if wrong:
            raise ConfigError(
                f"not hosts: {', '.join(map(repr, wrong))}",
                hint="write names (example.org), names below one (*.example.net), addresses or CIDR ranges, "
                "without a scheme, a port or a path",
            )
        return cls(names=frozenset(names), suffixes=tuple(suffixes), networks=tuple(networks))

    def allows_name(self, name: str) -> bool:
        """Say whether a host's name, in normal form, is allowed."""
        return name in self.names or name.endswith(self.suffixes)

    def names_address(self, address: Address) -> bool:
        """Say whether an address is one of those that are named themselves.

        A range of the open internet that has others in it, as 0.0.0.0/0, does not name those.
        """
        return any(
            address.version == net.version
            and address in net
            and (net.num_addresses == 1 or is_public(address) or not net.is_global)
            for net in self.networks
        )

    def allows_address_of_name(self, address: Address) -> bool:
        """Say whether an allowed name may lead to an address."""
        return self.names_address(address) or is_public(address)


def normalize_host(text: str) -> str | None:
    """Return a host's name in lower case, non-ASCII ones in their DNS form; None when it is none."""
    try:
        name = text.rstrip(".").encode("idna").decode("ascii").lower()
    except UnicodeError:
        return None
    plain = name.replace("-", "").replace("_", "").replace(".", "")
    return name if plain.isascii() and plain.isalnum() and ".." not in name and len(name) < 254 else None


def is_public(address: Address) -> bool:
    """Say whether an address is one of the open internet; one that wraps another counts as that one."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if inner is not None:
            return is_public(inner)
        if address.teredo is not None or address.is_site_local or address in _NAT64:
            return False
    return address.is_global and not (address.is_multicast or address.is_reserved or address.is_unspecified)


_NAT64 = ipaddress.ip_network("64:ff9b::/96")


class RefusedError(Exception):
    """A request is not let through; the status and the words go to the client."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status


async def choose_addresses(
    rules: HostRules, host: str, port: int, *, threads: Executor | None = None
) -> list[str]:
    """Return the addresses to connect to, checked. RefusedError when there are none.

    `threads`: where names are resolved; None: the event loop's own.
    """
    literal = _read_address(host)
    if literal is not None:
        if not rules.names_address(literal):
            raise RefusedError(403, f"{host} is not among the allowed hosts")
        return [str(literal)]
    name = normalize_host(host)
    if name is None or not rules.allows_name(name):
        raise RefusedError(403, f"{host} is not among the allowed hosts")
    try:
        resolve = functools.partial(socket.getaddrinfo, name, port, type=socket.SOCK_STREAM)
        found = await asyncio.get_running_loop().run_in_executor(threads, resolve)
    except (OSError, UnicodeError) as error:
        raise RefusedError(502, f"{name} cannot be resolved") from error
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
    checked = [
        address
        for address in addresses
        if (parsed := _read_address(address)) is not None and rules.allows_address_of_name(parsed)
    ]
    if not checked:
        raise RefusedError(403, f"{name} leads to a private address, which is not among the allowed hosts")
    return checked


class EgressProxy:
    """An HTTP proxy with an allowlist. `start` it on a socket, `aclose` it in the same event loop."""

    def __init__(self, rules: HostRules) -> None:
        self.rules = rules
        """May be replaced: it counts from the next connection on, and `end_connections` ends earlier ones."""
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._threads = ThreadPoolExecutor(_NAMES_AT_A_TIME, thread_name_prefix="castform-names")

    async def start(self, listening: socket.socket) -> None:
        """Serve on a listening socket, TCP or Unix, which belongs to the proxy from now on."""
        listening.setblocking(False)
        try:
            self._server = await asyncio.start_server(
                self._serve,
                sock=listening,
                limit=_MAX_HEAD_BYTES,
                start_serving=False,  # cancelled as it begins to serve, it is there to be closed
            )
            await self._server.start_serving()
        except BaseException:
            await self.aclose()
            raise

    async def end_connections(self) -> None:
        """End what is under way."""
        await finish(self._end_connections())

    async def aclose(self) -> None:
        """Stop serving and end what is under way. Twice is fine."""
        server, self._server = self._server, None
        if server is not None:
            server.close()
        self._threads.shutdown(wait=False, cancel_futures=True)
        await finish(self._end_connections())

    async def _end_connections(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # start_server makes one for every connection
        if len(self._tasks) >= MAX_CONNECTIONS:
            writer.close()
            return
        self._tasks.add(task)
        try:
            await self._answer(reader, writer)
        except RefusedError as refusal:
            await _write_refusal(writer, refusal)
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError):
            pass  # one of the two ends went away
        except asyncio.CancelledError:
            pass  # the proxy is being closed; the server would log it as a fault
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(_HEAD_SECONDS):
            head = await reader.readuntil(b"\r\n\r\n")
        method, target, version, headers = _read_head(head)
        if method == "CONNECT":
            host, port = _split_target(target)
            first = b""
        else:
            host, port, path = _split_url(target)
            first = _make_head(method, path, version, target, headers)
        addresses = await choose_addresses(self.rules, host, port, threads=self._threads)
        upstream_reader, upstream = await _connect(addresses, port)
        try:
            if first:
                upstream.write(first)
            else:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                await writer.drain()
            await _join(reader, writer, upstream_reader, upstream)
        finally:
            upstream.close()


def _read_head(head: bytes) -> tuple[str, str, str, list[tuple[str, str]]]:
    """Return method, target, version and headers. RefusedError for what is no plain HTTP/1 head."""
    lines = head.decode("latin-1").split("\r\n")[:-2]
    words = lines[0].split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise RefusedError(400, "this is no HTTP/1 request")
    headers: list[tuple[str, str]] = []
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip() or "\n" in line or "\r" in line:
            raise RefusedError(400, "this is no HTTP/1 request")
        headers.append((name, value.strip()))
    return words[0], words[1], words[2], headers


def _split_target(target: str) -> tuple[str, int]:
    host, colon, port = target.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit()) or not 0 < int(port) < 65536:
        raise RefusedError(400, "CONNECT needs host:port")
    return host.strip("[]"), int(port)


def _split_url(target: str) -> tuple[str, int, str]:
    try:
        url = urlsplit(target)
        port = url.port or 80
    except ValueError as error:
        raise RefusedError(400, "the URL cannot be read") from error
    if url.scheme != "http" or not url.hostname:
        raise RefusedError(403, "this is a proxy: ask it for http://host/ or by CONNECT")
    path = url.path or "/"
    return url.hostname, port, f"{path}?{url.query}" if url.query else path


def _make_head(method: str, path: str, version: str, target: str, headers: list[tuple[str, str]]) -> bytes:
    """Return a request for the host that was checked; its connection serves this request alone."""
    host = urlsplit(target).netloc.rpartition("@")[2]
    kept = [(name, value) for name, value in headers if name.lower() not in _DROPPED]
    lines = [f"{method} {path} {version}", f"Host: {host}", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in kept]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


async def _connect(addresses: Sequence[str], port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    for address in addresses:
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(_CONNECT_SECONDS):
                return await asyncio.open_connection(address, port)
    raise RefusedError(502, "the host cannot be connected to")


async def _join(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    upstream_reader: asyncio.StreamReader,
    upstream: asyncio.StreamWriter,
) -> None:
    """Carry bytes both ways until the host has said all or one of the two ends breaks."""
    up = asyncio.create_task(_carry(reader, upstream))
    down = asyncio.create_task(_carry(upstream_reader, writer))
    try:
        await asyncio.wait({up, down}, return_when=asyncio.FIRST_COMPLETED)
        if up.done() and up.result():  # the box has said all and waits for the rest of the answer
            await down
    finally:
        up.cancel()
        down.cancel()
        await asyncio.gather(up, down, return_exceptions=True)


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """Carry bytes one way to their end; False where one of the two ends broke."""
    try:
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
    except OSError:
        return False
    return True


async def _write_refusal(writer: asyncio.StreamWriter, refusal: RefusedError) -> None:
    words = f"castform: {refusal}\n".encode()
    head = f"HTTP/1.1 {refusal.status} Refused\r\nContent-Type: text/plain\r\nContent-Length: {len(words)}\r\nConnection: close\r\n\r\n"
    with contextlib.suppress(OSError):
        writer.write(head.encode() + words)
        await writer.drain()


def _read_address(text: str) -> Address | None:
    """Return an address that is written as one; None for names and for odd spellings of addresses."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0].strip("[]"))
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address
