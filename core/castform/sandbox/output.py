"""What a command writes: counted whole, kept in part, in bounded memory."""

from __future__ import annotations


class TailBuffer:
    """Takes any number of bytes and keeps the last `limit` of them."""

    def __init__(self, limit: int) -> None:
        """`limit` in bytes; 0 keeps nothing."""
        self._limit = max(0, limit)
        self._kept = bytearray()
        self._seen = 0

    def add(self, data: bytes | bytearray | memoryview) -> None:
        """Take what was written next."""
        self._seen += len(data)
        if len(data) >= self._limit:
            self._kept[:] = data[len(data) - self._limit :]
            return
        self._kept += data
        del self._kept[: max(0, len(self._kept) - self._limit)]  # at the front it moves nothing

    @property
    def tail(self) -> bytes:
        """The last bytes, at most `limit`."""
        return bytes(self._kept)

    @property
    def seen(self) -> int:
        """Bytes that were written in all."""
        return self._seen

    @property
    def dropped(self) -> int:
        """Bytes that came before the tail."""
        return self._seen - len(self._kept)
