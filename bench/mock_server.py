"""A chat-completions server that always says 42, after a fixed wait. Standard library only.

It runs in a process of its own so that its work is never counted as a client's, and
it parses no JSON so that there is little of it. `GET /stats` says how many requests it
answered and how many were waiting at once.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
from dataclasses import asdict, dataclass

REPLY = json.dumps(
    {
        "id": "chatcmpl-0",
        "object": "chat.completion",
        "created": 0,
        "model": "mock",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "42"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 12, "completion_tokens": 1, "total_tokens": 13},
    }
).encode()


@dataclass
class Stats:
    answered: int = 0
    waiting: int = 0
    most_waiting: int = 0


class Connection(asyncio.Protocol):
    """One keep-alive HTTP/1.1 connection; requests on it are answered one after the other."""

    def __init__(self, latency_seconds: float, stats: Stats) -> None:
        self._latency = latency_seconds
        self._stats = stats
        self._buffer = bytearray()
        self._busy = False
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._take_request()

    def _take_request(self) -> None:
        head_end = self._buffer.find(b"\r\n\r\n")
        if self._busy or head_end < 0:
            return
        head = bytes(self._buffer[:head_end]).lower()
        length = 0
        for line in head.split(b"\r\n"):
            if line.startswith(b"content-length:"):
                length = int(line.partition(b":")[2])
        if len(self._buffer) < head_end + 4 + length:
            return
        del self._buffer[: head_end + 4 + length]
        self._busy = True
        if head.startswith(b"get /stats"):
            self._send(json.dumps(asdict(self._stats)).encode())
            return
        self._stats.waiting += 1
        self._stats.most_waiting = max(self._stats.most_waiting, self._stats.waiting)
        if self._latency:
            asyncio.get_running_loop().call_later(self._latency, self._answer)
        else:
            self._answer()

    def _answer(self) -> None:
        self._stats.waiting -= 1
        self._stats.answered += 1
        self._send(REPLY)

    def _send(self, body: bytes) -> None:
        if self._transport is None:
            return
        head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        self._transport.write(head.encode() + body)
        self._busy = False
        self._take_request()


async def serve(latency_seconds: float) -> None:
    """Listen on a free loopback port, print it, and serve until the process is ended."""
    stats = Stats()
    server = await asyncio.get_running_loop().create_server(
        lambda: Connection(latency_seconds, stats), "127.0.0.1", 0, backlog=1024
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--latency", type=float, default=0.0, help="seconds")
    asyncio.run(serve(parser.parse_args().latency))
