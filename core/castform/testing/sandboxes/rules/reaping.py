"""What dead owners left is removed, and only that."""

from __future__ import annotations

import asyncio
import json
import sys

from castform.sandbox.teardown import finish
from castform.testing.sandboxes.rule import BrokenRuleError, SandboxRule, check_equal, check_that
from castform.testing.sandboxes.subject import Examined, make_token, run_shell, wait_until_gone

_OWNER = """
import asyncio, json, os, signal, sys
from castform.sandbox import load_provider
from castform.sandbox.contract import BoxRequest, Limits, NetworkPolicy

async def own():
    told = json.loads(sys.argv[1])
    provider = load_provider(told["name"], **told["options"])
    limits = Limits(cpus=1.0, memory_mb=256, pids=64, disk_mb=None)
    box = await provider.start(BoxRequest(image=told["image"], limits=limits, network=NetworkPolicy(mode=told["network"])))
    sleeper = 'sh -c "while :; do sleep 1; done" "$1" > /dev/null 2>&1 &'
    await box.exec(["sh", "-c", sleeper, "sh", told["token"]])
    print(box.id, flush=True)
    await asyncio.to_thread(sys.stdin.read)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(own())
"""
_SECONDS = 120.0
_TRIES = 3
"""Another process of this machine may clear the dead owner's box first, or have one that is dead itself."""


async def check_reap(examined: Examined) -> None:
    dead, living = make_token(), make_token()
    async with examined.own_box() as own:
        processes: list[asyncio.subprocess.Process] = []
        try:
            processes.append(await _start_owner(examined, living))
            for _ in range(_TRIES):
                processes.append(await _start_owner(examined, dead))
                await _kill(processes[-1])
                removed = await examined.provider.reap()
                if removed:
                    break
            check_that(len(removed) >= 1, "nothing was removed of an owner that was killed")
            check_equal("processes of a dead owner's box", await wait_until_gone(dead), [])
            check_equal("this process's own box", await run_shell(own, "echo here"), "here")
            check_that(bool(await _is_left(living)), "the box of another owner, which lives, was removed")
        finally:
            for process in processes:
                await _kill(process)
            await examined.provider.reap()
    check_equal("processes of the second owner's box", await wait_until_gone(living), [])
    again = [list(await examined.provider.reap()) for _ in range(_TRIES)]
    check_that([] in again, f"a second reap removes {again[0]} once more")


async def _start_owner(examined: Examined, token: str) -> asyncio.subprocess.Process:
    request = examined.make_request()
    told = {
        "name": examined.subject.name,
        "options": dict(examined.subject.options),
        "image": examined.subject.image,
        "network": request.network.mode,
        "token": token,
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        _OWNER,
        json.dumps(told),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None and process.stderr is not None  # they are pipes
    try:
        line = await asyncio.wait_for(process.stdout.readline(), _SECONDS)
        if not line.strip():
            said = (await process.stderr.read()).decode("utf-8", "replace")[-500:]
            raise BrokenRuleError(f"another process cannot start a box: {said}")
    except BaseException:
        await finish(_kill(process))
        raise
    return process


async def _kill(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.kill()
    await process.wait()


async def _is_left(token: str) -> list[int]:
    return await wait_until_gone(token, seconds=0.0)


RULES = (
    SandboxRule(
        name="reap",
        promise="reap removes the boxes of owners that are dead, and no others.",
        check=check_reap,
    ),
)
