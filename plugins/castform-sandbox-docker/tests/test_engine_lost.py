"""An engine of the test's own is killed while a box works."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from castform.sandbox import load_provider
from castform.sandbox.contract import BoxRequest, Limits
from castform.sandbox.errors import MissingError, SandboxGoneError

pytestmark = pytest.mark.docker
BUSYBOX = "castform/busybox:local"
SLEEPER = "sleep\0" + "98765"
"""On the command line of the command in the box only."""


@pytest.fixture
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Yield the address of an engine of its own, and its process."""
    if os.geteuid() != 0:
        assert not os.environ.get("CI"), "CI runs as root"
        pytest.skip("only root starts an engine")
    folder = tmp_path_factory.mktemp("e")
    host = f"unix://{folder}/e.sock"
    words = ["--host", host, "--data-root", f"{folder}/data", "--exec-root", f"{folder}/exec"]
    words += ["--pidfile", f"{folder}/pid", "--bridge", "none", "--iptables=false"]
    # In a network of its own: as it starts, `--bridge none` removes this machine's docker0.
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            ["unshare", "--net", "dockerd", *words], stdout=log, stderr=log, start_new_session=True
        )
    try:
        docker = ["docker", "--host", host]
        while subprocess.run([*docker, "info"], capture_output=True).returncode:
            assert process.poll() is None, (folder / "log").read_text()
        saved = subprocess.Popen(["docker", "save", BUSYBOX], stdout=subprocess.PIPE)
        subprocess.run([*docker, "load"], stdin=saved.stdout, check=True, capture_output=True)
        saved.wait()
        yield host, process
    finally:
        for pid in find_processes(str(folder)):
            os.kill(pid, signal.SIGKILL)
        process.kill()
        process.wait()
        for line in reversed(Path("/proc/self/mountinfo").read_text().splitlines()):
            if line.split()[4].startswith(str(folder)):
                subprocess.run(["umount", "--lazy", line.split()[4]], capture_output=True)


def find_processes(word: str) -> list[int]:
    """Return the processes of an engine, by its folder on their command lines."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if word.encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def wait_for(holds: Callable[[], object]) -> None:
    """Return once something holds; the test's own time limit bounds it."""
    while not holds():
        time.sleep(0.02)


async def test_a_killed_engine_ends_commands_at_once_and_boxes_at_their_close(engine):
    host, process = engine
    provider = load_provider("docker", host=host, engine_timeout_seconds=10)
    box = await provider.start(
        BoxRequest(image=BUSYBOX, limits=Limits(cpus=1, memory_mb=64, pids=32, disk_mb=16))
    )
    waiting = asyncio.create_task(box.exec(["sleep", "98765"]))
    await asyncio.to_thread(wait_for, lambda: find_processes(SLEEPER))
    process.kill()
    async with asyncio.timeout(20):
        with pytest.raises(SandboxGoneError, match="does not answer"):
            await waiting
        with pytest.raises(SandboxGoneError):
            await box.exec(["true"])
        with pytest.raises(SandboxGoneError):
            await box.read_file("/etc/passwd")
        await box.close()
        with pytest.raises(MissingError):
            await provider.start(BoxRequest(image=BUSYBOX))
        await asyncio.to_thread(wait_for, lambda: not find_processes(SLEEPER))
    await provider.aclose()
