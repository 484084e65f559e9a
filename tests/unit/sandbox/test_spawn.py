"""Programs of this machine: their pipes, their ends, and who waits for whom."""

from __future__ import annotations

import asyncio
import os
import sys

import pytest

from castform.sandbox.errors import ExecTimeoutError
from castform.sandbox.process.tree import kill_members
from castform.sandbox.spawn import Leftovers, run_program

ENV = {"PATH": os.defpath}


async def kill(pid: int) -> None:
    await kill_members("CASTFORM_TEST=none", root=pid)


async def run(script: str, **options):
    return await run_program(["/bin/sh", "-c", script], env=ENV, kill=kill, **options)


def list_descriptors() -> list[str]:
    return sorted(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names are all it takes


async def test_the_whole_environment_is_what_is_given():
    done = await run_program(["/usr/bin/env"], env={"ONLY": "this"}, kill=kill)
    assert done.stdout == b"ONLY=this\n"


async def test_a_program_that_is_not_there_is_an_os_error():
    with pytest.raises(FileNotFoundError):
        await run_program(["/no/such/program"], env=ENV, kill=kill)


async def test_no_descriptor_is_left_of_commands(tmp_path):
    before = list_descriptors()
    for script in ("true", "sleep 30 & true", "exec >&- 2>&-; true"):
        await run(script, stdin=b"unread" * 50_000)
    with pytest.raises(ExecTimeoutError):
        await run("sleep 30", timeout_seconds=0.01)
    assert list_descriptors() == before


async def test_output_of_a_child_that_stays_is_read_and_thrown_away(tmp_path):
    """It writes far more than a pipe holds, after its command has ended, and comes to its end."""
    leftovers = Leftovers()
    script = f"(while [ ! -e {tmp_path}/go ]; do sleep 0.01; done; head -c 1000000 /dev/zero; echo > {tmp_path}/end) & echo said"
    done = await run(script, leftovers=leftovers)
    assert done.stdout == b"said\n"
    (tmp_path / "go").touch()
    await run(f"while [ ! -e {tmp_path}/end ]; do sleep 0.01; done", timeout_seconds=30)
    leftovers.close()


async def test_a_program_that_closes_its_output_runs_on():
    done = await run("exec >&- 2>&-; sleep 0.2; exit 7")
    assert (done.exit_code, done.stdout) == (7, b"")


async def test_a_timeout_has_what_was_written_and_the_time():
    with pytest.raises(ExecTimeoutError, match=r"was not done after 0\.3 s") as caught:
        await run("printf '\\377'; echo err >&2; sleep 30", timeout_seconds=0.3)
    result = caught.value.result
    assert (result.exit_code, result.stdout, result.stderr) == (137, b"\xff", b"err\n")
    assert isinstance(caught.value, TimeoutError)


async def test_memory_stays_bounded_while_output_floods():
    """In a process of its own, so that its peak is of this alone: 400 MB pass, far less is held."""
    code = """
import asyncio, resource
from castform.sandbox.spawn import run_program
from castform.sandbox.process.tree import kill_members
async def main():
    await run_program(["true"], env={"PATH": "/bin:/usr/bin"}, kill=lambda pid: kill_members("A=b", root=pid))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    done = await run_program(["sh", "-c", "head -c 400000000 /dev/zero"], env={"PATH": "/bin:/usr/bin"},
                             kill=lambda pid: kill_members("A=b", root=pid), max_output_bytes=1 << 20)
    print(done.stdout_dropped, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
asyncio.run(main())
"""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    dropped, grown_kib = map(int, out.split())
    assert dropped == 400_000_000 - (1 << 20)
    assert grown_kib < 16 << 10
