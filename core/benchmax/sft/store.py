"""Many rows of bytes in few large blocks: next to no memory beyond the bytes themselves."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator

BLOCK_BYTES = 4 << 20


class RowStore:
    """Canonical rows, each with its newline, one behind the other. Rows are added, never changed."""

    __slots__ = ("_block", "_blocks", "_ends", "_starts")

    def __init__(self) -> None:
        self._blocks: list[bytes] = []
        self._block = bytearray()
        """The rows that are in no full block yet."""
        self._starts: list[int] = [0]
        """Index of the first row of each block, the open one too."""
        self._ends = array("Q")
        """Where each row ends inside its block."""

    def append(self, data: bytes) -> None:
        """Add a row, given without its newline."""
        block = self._block
        if block and len(block) + len(data) >= BLOCK_BYTES:
            self._blocks.append(bytes(block))
            self._starts.append(len(self._ends))
            block = self._block = bytearray()
        block += data
        block += b"\n"
        self._ends.append(len(block))

    def __len__(self) -> int:
        return len(self._ends)

    def line(self, index: int) -> bytes:
        """Return a row with its newline. IndexError outside of 0 to len - 1."""
        if not 0 <= index < len(self._ends):
            raise IndexError(f"there is no row {index}; there are {len(self._ends)}")
        number = bisect_right(self._starts, index) - 1
        start = self._ends[index - 1] if index > self._starts[number] else 0
        return bytes(self._block_at(number)[start : self._ends[index]])

    def lines(self) -> Iterator[bytes]:
        """Yield every row with its newline."""
        return map(self.line, range(len(self._ends)))

    def blocks(self) -> Iterator[bytes | bytearray]:
        """Yield all rows in pieces of some megabytes that begin and end with whole rows."""
        return map(self._block_at, range(len(self._starts)))

    def _block_at(self, number: int) -> bytes | bytearray:
        return self._blocks[number] if number < len(self._blocks) else self._block
