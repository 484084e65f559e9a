"""What an engine of a busy machine passes on late."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from castform.sandbox import load_provider
from castform.sandbox.contract import BoxRequest, Limits

pytestmark = [pytest.mark.docker, pytest.mark.asyncio(loop_scope="function")]
ENGINE = "/var/run/docker.sock"
LATE_SECONDS = 0.7


async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Be an engine that is late with what commands write, and with nothing else."""
    from_engine, to_engine = await asyncio.open_unix_connection(ENGINE)
    streams = asyncio.Event()

    async def ask() -> None:
        while data := await reader.read(1 << 16):
            if b"/start HTTP" in data and b"/exec/" in data:
                streams.set()
            to_engine.write(data)
        to_engine.write_eof()

    async def answer() -> None:
        while data := await from_engine.read(1 << 16):
            head, blank, output = data.partition(b"\r\n\r\n") if streams.is_set() else (data, b"", b"")
            if blank:
                writer.write(head + blank)
                data = output
            if streams.is_set():
                await asyncio.sleep(LATE_SECONDS)
            writer.write(data)
        writer.close()

    with contextlib.suppress(OSError):
        await asyncio.gather(ask(), answer())
    to_engine.close()


async def test_what_a_command_wrote_is_whole_when_the_engine_is_late_with_it(nothing_is_left, tmp_path):
    path = str(tmp_path / "engine.sock")
    async with await asyncio.start_unix_server(pass_on, path):
        provider = load_provider("docker", host=f"unix://{path}")
        box = await provider.start(BoxRequest(limits=Limits(memory_mb=256, disk_mb=64)))
        try:
            assert (await box.exec(["sh", "-c", "echo one; echo two >&2"])).stdout == b"one\n"
        finally:
            await provider.aclose()
