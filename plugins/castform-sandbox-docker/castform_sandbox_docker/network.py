"""Networks of boxes: none, or one that the boxes of a provider share without reaching one another."""

from __future__ import annotations

import ipaddress
import secrets
import threading
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from castform.sandbox.errors import MissingError, SandboxStartError
from castform.sandbox.teardown import finish
from castform_sandbox_docker.engine import Engine
from castform_sandbox_docker.life import Life

if TYPE_CHECKING:
    import docker

_DEFAULT_POOLS = (("172.16.0.0/12", 16), ("192.168.0.0/16", 20))
"""Address ranges that an engine takes networks from unless it is told others: (range, prefix of one)."""
_DEFAULT_RESERVED = ("172.16.0.0/16",)
_NO_NETWORK = "none"


class PublicNetwork:
    """A bridge that is made when the first box needs it."""

    def __init__(self, engine: Engine, labels: Mapping[str, str]) -> None:
        self._engine = engine
        self._labels = dict(labels)
        self._name: str | None = None
        self._lock = threading.Lock()
        """Held in the engine's threads, so by boxes of any event loop."""

    async def get_name(self) -> str:
        """Return the network's name. SandboxStartError where the engine has no addresses left."""
        from docker.errors import APIError

        if self._name is not None:
            return self._name
        try:
            return await finish(self._engine.call(self._make))
        except APIError as error:
            raise SandboxStartError(
                f"the engine makes no network: {error.explanation}",
                hint="`castform sandbox reap` removes what dead runs left; `docker network ls` shows the rest",
            ) from error

    def _make(self, client: docker.APIClient) -> str:
        with self._lock:
            if self._name is None:
                name = f"castform-{secrets.token_hex(6)}"
                client.create_network(
                    name,
                    driver="bridge",
                    labels=self._labels,
                    options={"com.docker.network.bridge.enable_icc": "false"},
                    check_duplicate=True,
                )
                self._name = name
            return self._name

    async def remove(self) -> None:
        """Remove the network, when it was made and no box is left in it."""
        from docker.errors import APIError

        if self._name is None:
            return
        try:
            await self._engine.call(self._remove)
        except (APIError, MissingError):
            return  # the reaper comes back to it

    def _remove(self, client: docker.APIClient) -> None:
        with self._lock:
            name, self._name = self._name, None
            if name is not None:
                client.remove_network(name)


async def move(life: Life, public: PublicNetwork, *, to_public: bool) -> None:
    """Put a box into the public network or out of every one. Its loopback stays as it is."""
    wanted = await public.get_name() if to_public else None
    said = await life.call(lambda client: client.inspect_container(life.container_id))
    present = set(said["NetworkSettings"]["Networks"])
    if wanted in present or (wanted is None and present <= {_NO_NETWORK}):
        return
    for name in sorted(present):
        await _leave(life, name)
    if wanted is not None:
        await life.call(lambda client: client.connect_container_to_network(life.container_id, wanted))


async def _leave(life: Life, name: str) -> None:
    await life.call(
        lambda client: client.disconnect_container_from_network(life.container_id, name, force=True)
    )


def count_free_networks(info: Mapping[str, Any], networks: Iterable[Mapping[str, Any]]) -> int:  # Any: JSON
    """Return how many more networks the engine has addresses for."""
    used = [
        ipaddress.ip_network(part["Subnet"], strict=False)
        for network in networks
        for part in (network.get("IPAM") or {}).get("Config") or ()
        if part.get("Subnet")
    ]
    pools = [(pool["Base"], int(pool["Size"])) for pool in info.get("DefaultAddressPools") or ()]
    if not pools:
        pools = list(_DEFAULT_POOLS)
        used += [ipaddress.ip_network(reserved) for reserved in _DEFAULT_RESERVED]
    free = 0
    for base, size in pools:
        whole = ipaddress.ip_network(base, strict=False)
        if size - whole.prefixlen > 12:
            return 1 << 12
        for part in whole.subnets(new_prefix=size):
            if not any(part.version == other.version and part.overlaps(other) for other in used):
                free += 1
    return free
