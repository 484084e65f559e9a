"""What a box reaches beside its models: nothing, or named hosts through a proxy on its own loopback."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping

from castform.sandbox.contract import NetworkPolicy
from castform.sandbox.egress import EgressProxy, HostRules
from castform.sandbox.errors import SandboxGoneError

Listen = Callable[[], Awaitable[tuple[socket.socket, int]]]
"""Returns a listening socket of the box's loopback, and its port."""

PUBLIC_NOTE = "a public network is HTTP and HTTPS to named hosts through a proxy: no other protocol, no names in the box"
_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")


class BoxNetwork:
    """The proxy of one box."""

    def __init__(self, listen: Listen) -> None:
        self._listen = listen
        self._policy = NetworkPolicy()
        self._proxy: EgressProxy | None = None
        self._port = 0
        self._changing = asyncio.Lock()
        self._closed = False

    @property
    def notes(self) -> list[str]:
        return [PUBLIC_NOTE] if self._policy.mode == "public" else []

    @property
    def env(self) -> Mapping[str, str]:
        """What programs find the proxy by."""
        if self._policy.mode == "none":
            return {}
        address = f"http://127.0.0.1:{self._port}"
        local = "localhost,127.0.0.1,::1"
        return {**dict.fromkeys(_VARIABLES, address), "NO_PROXY": local, "no_proxy": local}

    async def set_policy(self, policy: NetworkPolicy) -> None:
        """Let exactly these hosts be reached from now on. ConfigError for what is no host."""
        rules = make_rules(policy)
        async with self._changing:  # two at a time would each start a proxy
            if policy.mode != "none" and self._proxy is None:
                listening, port = await self._listen()
                proxy = EgressProxy(rules)
                try:
                    await proxy.start(listening)
                except BaseException:
                    listening.close()
                    await proxy.aclose()
                    raise
                if self._closed:  # nobody else closes this proxy
                    await proxy.aclose()
                    raise SandboxGoneError("the sandbox is closed")
                self._proxy, self._port = proxy, port
            self._policy = policy
            if self._proxy is not None:
                self._proxy.rules = rules
                await self._proxy.end_connections()

    async def aclose(self) -> None:
        """End the proxy."""
        self._closed = True
        proxy, self._proxy = self._proxy, None
        if proxy is not None:
            await proxy.aclose()


def make_rules(policy: NetworkPolicy) -> HostRules:
    """Return what a policy lets the proxy connect to."""
    if policy.mode == "allowlist":
        return HostRules.parse(policy.allowed_hosts)
    if policy.mode == "public":
        return HostRules(suffixes=("",))  # what every name ends in; it may not lead to a private address
    return HostRules()
