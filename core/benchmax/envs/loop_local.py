"""One value an event loop: connection pools and semaphores belong to the loop that made them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class LoopLocal(Generic[T]):
    """Holds what `make` built for each running event loop, in any thread. Pickles as an empty holder."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._values: dict[asyncio.AbstractEventLoop, T] = {}

    def get(self) -> T:
        """Return the value of the running loop, building it on first use; values of closed loops are let go."""
        loop = asyncio.get_running_loop()
        value = self._values.get(loop)
        if value is None:
            for other in list(self._values):  # a copy: loops of other threads come and go meanwhile
                if other.is_closed():
                    self._values.pop(other, None)
            value = self._values[loop] = self._make()
        return value

    def pop(self) -> T | None:
        """Forget the running loop's value and return it, or None when there is none."""
        return self._values.pop(asyncio.get_running_loop(), None)

    def __reduce__(self) -> tuple[type[LoopLocal[T]], tuple[Callable[[], T]]]:
        return type(self), (self._make,)
