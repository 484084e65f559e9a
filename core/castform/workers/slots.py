"""`max_concurrent_rollouts` over several processes: the host keeps the count, a rollout asks for its turn."""

from __future__ import annotations

import asyncio
import itertools
from types import TracebackType

from castform.workers.channel import Channel


class HostSlots:
    """A worker's side of the count. `make` gives each rollout a slot of its own to enter."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._tickets = itertools.count()
        self._waiting: dict[int, asyncio.Future[None]] = {}

    def make(self) -> HostSlot:
        """Return a slot that is free once it is entered."""
        return HostSlot(self, next(self._tickets))

    async def take(self, ticket: int) -> None:
        """Ask the host and wait until it says yes."""
        granted = self._waiting[ticket] = asyncio.get_running_loop().create_future()
        self._channel.send({"t": "slot_wanted", "ticket": ticket})
        try:
            await granted
        except asyncio.CancelledError:
            self.give_back(ticket)
            raise
        finally:
            self._waiting.pop(ticket, None)

    def grant(self, ticket: int) -> None:
        """Let a waiting rollout go on; one that was cancelled meanwhile has given its slot back."""
        granted = self._waiting.get(ticket)
        if granted is not None and not granted.done():
            granted.set_result(None)

    def give_back(self, ticket: int) -> None:
        self._channel.send({"t": "slot_done", "ticket": ticket})


class HostSlot:
    """One rollout's turn, as an async context manager."""

    def __init__(self, slots: HostSlots, ticket: int) -> None:
        self._slots = slots
        self._ticket = ticket

    async def __aenter__(self) -> None:
        await self._slots.take(self._ticket)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._slots.give_back(self._ticket)
