"""What is reachable from a box besides its model."""

from __future__ import annotations

import ipaddress
import re
import socket

from castform.sandbox.contract import Capabilities, NetworkPolicy, Sandbox
from castform.sandbox.errors import UsageError
from castform.testing.sandboxes.rule import (
    NotCheckedError,
    SandboxRule,
    check_equal,
    check_that,
    claim_isolation,
)
from castform.testing.sandboxes.subject import Examined, run_shell
from castform.testing.sandboxes.upstream import Upstream, fetch, fetch_all, serve_sessions

_UNROUTED = "192.0.2.1"
"""Of RFC 5737: nothing is sent there, the system says from which of its addresses it would be."""
_SERVER = """
import socket
server = socket.create_server(("", 18080))
while True:
    link, _ = server.accept()
    link.recv(4096)
    link.sendall(b"HTTP/1.0 200 OK\\r\\n\\r\\nhere")
    link.close()
"""


async def check_nothing_reachable(examined: Examined) -> None:
    request = examined.make_request(network=NetworkPolicy(mode="none"))
    async with serve_sessions(host="0.0.0.0") as upstream, examined.own_box(request) as box:
        check_equal(
            "what answers under network none", await _find_reachable(box, upstream, await _addresses(box)), []
        )
        inside = await box.connect(upstream.first)
        said = await fetch(box, f"{inside.base_url}/models", inside.api_key)
        check_that("status 200" in said, f"the connected model answers {said!r}")
        check_equal(
            "what answers under network none with a model connected",
            await _find_reachable(box, upstream, await _addresses(box)),
            [],
        )


async def check_allowlist(examined: Examined) -> None:
    """What is not named stays closed, this machine's own addresses as well; a named address opens."""
    host = _own_address()
    closed = NetworkPolicy(mode="allowlist", allowed_hosts=("castform.invalid",))
    async with (
        serve_sessions(host="0.0.0.0") as upstream,
        examined.own_box(examined.make_request(network=closed)) as box,
    ):
        check_equal(
            "what answers beside the allowed hosts",
            await _find_reachable(box, upstream, await _addresses(box), proxied=True),
            [],
        )
    if host is None:
        raise NotCheckedError("this machine has no address of its own to allow")
    opened = NetworkPolicy(mode="allowlist", allowed_hosts=(f"{host}/32",))
    async with (
        serve_sessions(host="0.0.0.0") as upstream,
        examined.own_box(examined.make_request(network=opened)) as box,
    ):
        said = await fetch_all(box, [(f"http://{host}:{upstream.port}/hello", "")], by_proxy=True)
        check_that(upstream.word in said, f"an allowed address answers {said!r}")


async def check_set_network(examined: Examined) -> None:
    """An allowed address is closed and opened while the box runs; its model stays connected."""
    host = _own_address()
    if host is None:
        raise NotCheckedError("this machine has no address of its own to allow")
    opened = NetworkPolicy(mode="allowlist", allowed_hosts=(f"{host}/32",))
    closed = NetworkPolicy(mode="none")
    async with (
        serve_sessions(host="0.0.0.0") as upstream,
        examined.own_box(examined.make_request(network=opened)) as box,
    ):
        inside = await box.connect(upstream.first)
        for policy in (opened, closed, opened):
            try:
                await box.set_network(policy)
            except UsageError as error:
                raise NotCheckedError(f"the provider cannot change a box's network: {error}") from error
            said = await fetch_all(box, [(f"http://{host}:{upstream.port}/hello", "")], by_proxy=True)
            check_equal(
                f"whether an address answers under {policy.mode}", upstream.word in said, policy is opened
            )
            said = await fetch(box, f"{inside.base_url}/models", inside.api_key)
            check_that('"first"' in said, f"under {policy.mode} the connected model answers {said!r}")


async def check_other_boxes(examined: Examined) -> None:
    """A server in one box is not reachable from another."""
    async with examined.own_box() as one, examined.own_box() as other:
        serve = 'command -v python3 > /dev/null || { echo none; exit 0; }; python3 -c "$1" > /dev/null 2>&1 &'
        if await run_shell(one, serve, _SERVER) == "none":
            raise NotCheckedError("the image has no python3 to serve by")
        wait = "i=0; while ! grep -q ':46A0 ' /proc/net/tcp && [ $i -lt 100 ]; do sleep 0.1; i=$((i+1)); done; true"
        await run_shell(one, wait)
        own = await fetch(one, "http://127.0.0.1:18080/")
        check_that("status 200" in own, f"a server in a box does not answer itself: {own!r}")
        for address in [*await _inner_addresses(one), "127.0.0.1"]:
            said = await fetch(other, f"http://{address}:18080/")
            check_that("status 200" not in said, f"another box reaches a server in this one by {address}")


async def _find_reachable(
    box: Sandbox, upstream: Upstream, addresses: list[str], *, proxied: bool = False
) -> list[str]:
    """Return the addresses by which requests from inside reach this machine's server."""
    upstream.asked.clear()
    urls = {
        address: f"http://{f'[{address}]' if ':' in address else address}:{upstream.port}/hello-{number}"
        for number, address in enumerate(addresses)
    }
    await fetch_all(box, [(url, "") for url in urls.values()])
    if proxied:
        await fetch_all(box, [(url, "") for url in urls.values()], by_proxy=True)
    seen = {path for path, _ in upstream.asked}
    return [address for address, url in urls.items() if f"/{url.rpartition('/')[2]}" in seen]


async def _addresses(box: Sandbox) -> list[str]:
    """Return where a machine's server could be reached from a box: loopback, its own addresses, the box's gateways."""
    found = ["127.0.0.1", "localhost", "0.0.0.0", "host.docker.internal"]
    own = _own_address()
    if own is not None:
        found.append(own)
    for address in await _inner_addresses(box):
        network = ipaddress.ip_network(f"{address}/16", strict=False)
        near = ipaddress.ip_network(f"{address}/24", strict=False)
        found += [str(network.network_address + 1), str(near.network_address + 1)]
    routes = await run_shell(box, "cat /proc/net/route 2> /dev/null; true")
    for gateway in re.findall(r"^\S+\s+\S+\s+([0-9A-F]{8})\s", routes, flags=re.MULTILINE):
        number = int.from_bytes(bytes.fromhex(gateway), "little")
        if number:
            found.append(str(ipaddress.IPv4Address(number)))
    return list(dict.fromkeys(found))


async def _inner_addresses(box: Sandbox) -> list[str]:
    """Return a box's own IPv4 addresses, loopback left out."""
    table = await run_shell(box, "cat /proc/net/fib_trie 2> /dev/null; true")
    pairs = re.findall(r"\|-- (\d+\.\d+\.\d+\.\d+)\n\s+/32 host LOCAL", table)
    return sorted({address for address in pairs if not address.startswith("127.")})


def _own_address() -> str | None:
    """Return the address that this machine would use to reach others; None without a route."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((_UNROUTED, 9))
        except OSError:
            return None
        return str(probe.getsockname()[0])


def _claims_both(has: Capabilities) -> str | None:
    return _claims_none(has) or _claims_allowlist(has)


def _claims_none(has: Capabilities) -> str | None:
    return None if "none" in has.networks else "the provider cannot cut the network off"


def _claims_allowlist(has: Capabilities) -> str | None:
    return None if "allowlist" in has.networks else "the provider has no allowlist"


RULES = (
    SandboxRule(
        name="network-none",
        promise="Without a network nothing but the connected model answers: not this machine, on none of its addresses.",
        check=check_nothing_reachable,
        find_disclaimer=_claims_none,
    ),
    SandboxRule(
        name="network-allowlist",
        promise="With an allowlist only what it names answers, and this machine only where its address is named.",
        check=check_allowlist,
        find_disclaimer=_claims_allowlist,
    ),
    SandboxRule(
        name="network-changes",
        promise="The network of a box that runs is closed and opened; its model stays connected.",
        check=check_set_network,
        find_disclaimer=_claims_both,
    ),
    SandboxRule(
        name="network-other-boxes",
        promise="A server in one box is not reachable from another.",
        check=check_other_boxes,
        find_disclaimer=claim_isolation,
    ),
)
