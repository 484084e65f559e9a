"""Whose fault it is when the engine refuses a file: the path's, or its own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from castform_sandbox_docker.engine import Engine
from castform_sandbox_docker.files import Files
from castform_sandbox_docker.life import Life

from castform.sandbox.errors import (
    SandboxError,
    SandboxFileError,
)


@contextlib.asynccontextmanager
async def refuse_files(folder: Path, status: int, said: str) -> AsyncIterator[Files]:
    """Give the files of a box that runs, with an engine that answers each request for one in these words."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                length = re.search(r"(?i)content-length: (\d+)", head)
                await reader.readexactly(int(length[1]) if length else 0)
                target = head.split()[1]
                code, body = 200, {"State": {"Running": True}, "ApiVersion": "1.41"}
                if target.partition("?")[0].endswith("/archive"):
                    code, body = status, {"message": said}
                data = json.dumps(body).encode()
                kind = f"Content-Type: application/json\r\nContent-Length: {len(data)}"
                writer.write(f"HTTP/1.1 {code} Said\r\n{kind}\r\n\r\n".encode() + data)

    path = str(folder / "engine.sock")
    async with await asyncio.start_unix_server(answer, path):
        engine = Engine(f"unix://{path}", timeout_seconds=10)
        try:
            yield Files(Life(engine, "c0ffee", "box", None))
        finally:
            engine.close()


@pytest.mark.parametrize(
    "status, said",
    [
        (404, "Could not find the file /a/b in container c0ffee"),
        (500, "lstat /var/lib/docker/overlay2/1/merged/a/b: not a directory"),
        (500, "lstat /a/b: no such file or directory"),
        (500, "too many levels of symbolic links in /a/b"),
        (500, "lstat /a/b: file name too long"),
        (400, "extraction point is not a directory"),
        (400, 'cannot overwrite directory "/a/b" with non-directory "/a"'),
        (500, "open /a/b: is a directory"),
        (500, "open /a/b: permission denied"),
    ],
    ids=["404", "kind", "missing", "links", "long", "point", "overwrite", "folder", "permission"],
)
async def test_what_an_engine_says_of_a_path_is_an_error_of_the_path(status, said, tmp_path):
    async with refuse_files(tmp_path, status, said) as files:
        with pytest.raises(SandboxFileError, match="/a/b"):
            await files.read("/a/b", 100)
        with pytest.raises(SandboxFileError, match="/a/b"):
            await files.download("/a/b", tmp_path / "copy", 100)


@pytest.mark.parametrize(
    "status, said",
    [
        (500, "write /var/lib/docker/tmp/1: no space left on device"),
        (500, "error creating overlay mount to /var/lib/docker/overlay2/1/merged: input/output error"),
        (500, "open /a/b: too many open files"),
        (500, ""),
        (503, "the engine is shutting down"),
        (429, "too many requests"),
    ],
    ids=["disk", "storage", "descriptors", "silent", "ending", "busy"],
)
async def test_an_engines_own_failure_is_never_an_error_of_the_path(status, said, tmp_path):
    async with refuse_files(tmp_path, status, said) as files:
        for work in (files.read("/a/b", 100), files.download("/a/b", tmp_path / "copy", 100)):
            with pytest.raises(SandboxError, match="the Docker engine failed at /a/b") as caught:
                await work
            assert type(caught.value) is SandboxError


async def test_a_paths_own_name_does_not_make_an_engines_failure_its_fault(tmp_path):
    path = "/a/no such file"
    async with refuse_files(tmp_path, 500, f"stat {path}: input/output error") as files:
        with pytest.raises(SandboxError, match="the Docker engine failed") as caught:
            await files.read(path, 100)
    assert type(caught.value) is SandboxError
