"""Limits that are in force: each is run into."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from castform.sandbox.contract import Capabilities, ExecResult, Limits, Sandbox
from castform.sandbox.errors import ExecTimeoutError, SandboxGoneError
from castform.testing.sandboxes.rule import SandboxRule, check_equal, check_that
from castform.testing.sandboxes.subject import Examined, make_token, run_shell, wait_until_gone

_MEMORY_BOMB = "head -c 400000000 /dev/zero | tail -c 400000000 | { sleep 3; wc -c; }"
_PROCESS_BOMB = """
i=0
while [ $i -lt 200 ]; do
    sleep 20 &
    i=$((i+1))
done
sleep 3
echo all
"""
_FORK_BOMB = 'bomb() { bomb "$1" & bomb "$1" & wait; }; bomb "$1"'
_DISK_BOMB = 'cd "$(mktemp -d)" && head -c 200000000 /dev/zero > fill; sync; sleep 3; cat fill | wc -c'
_CPU_BURN = """
(while :; do :; done) &
one=$!
(while :; do :; done) &
sleep 3
kill $one $!
wait
times
"""


async def check_memory(examined: Examined) -> None:
    limits = Limits(cpus=None, memory_mb=128, pids=128, disk_mb=None)
    async with examined.own_box(examined.make_request(limits=limits)) as box:
        done = await _run(box, _MEMORY_BOMB)
        said = None if done is None else done.text.strip()
        check_that(said != "400000000", "400 MB were held in a box of 128 MiB")
        if examined.capabilities.memory == "enforced":
            check_equal("the box after its memory was used up", await run_shell(box, "echo here"), "here")


async def check_processes(examined: Examined) -> None:
    limits = Limits(cpus=None, memory_mb=256, pids=64, disk_mb=None)
    async with examined.own_box(examined.make_request(limits=limits)) as box:
        done = await _run(box, _PROCESS_BOMB)
        check_that(done is None or "all" not in done.text.split(), "200 processes ran in a box of 64")
        if examined.capabilities.pids == "enforced":
            await box.end_processes()
            check_equal("the box after end_processes", await run_shell(box, "echo here"), "here")


async def check_fork_bomb(examined: Examined) -> None:
    token = make_token()
    limits = Limits(cpus=0.5, memory_mb=256, pids=64, disk_mb=None)
    async with examined.own_box(examined.make_request(limits=limits)) as box:
        try:
            async with asyncio.timeout(40):
                await _run(box, _FORK_BOMB, token, timeout_seconds=2)
                await box.end_processes()
                check_equal("the box after a fork bomb", await run_shell(box, "echo here"), "here")
        except TimeoutError:
            check_that(False, "a fork bomb was not ended within 40 s")
        check_equal("what is left of a fork bomb", await wait_until_gone(token), [])


async def check_disk(examined: Examined) -> None:
    limits = Limits(cpus=None, memory_mb=512, pids=128, disk_mb=32)
    async with examined.own_box(examined.make_request(limits=limits)) as box:
        done = await _run(box, _DISK_BOMB)
        said = "" if done is None else done.text.strip()
        check_that(said != "200000000", "200 MB were written in a box of 32 MiB")
        if examined.capabilities.disk == "enforced":
            check_equal("the box after its disk was filled", await run_shell(box, "echo here"), "here")


async def check_cpus(examined: Examined) -> None:
    limits = Limits(cpus=0.5, memory_mb=256, pids=64, disk_mb=None)
    async with examined.own_box(examined.make_request(limits=limits)) as box:
        done = await box.exec(["sh", "-c", _CPU_BURN], timeout_seconds=60)
        used = _read_children_seconds(done.text)
        check_that(used < 2.5, f"a box of half a CPU used {used:.1f} s of CPU in 3 s")


async def _run(box: Sandbox, script: str, *arguments: str, timeout_seconds: float = 60) -> ExecResult | None:
    """Run what runs into a limit; None where the box did not survive it or it had to be ended."""
    try:
        return await box.exec(["sh", "-c", script, "sh", *arguments], timeout_seconds=timeout_seconds)
    except (SandboxGoneError, ExecTimeoutError):
        return None


def _read_children_seconds(text: str) -> float:
    """Return user and system time of a shell's children, from what `times` says: `0m1.5s 0m0.1s` a line."""
    words = text.strip().splitlines()[-1].split()
    return sum(
        60 * float(word.partition("m")[0]) + float(word.partition("m")[2].rstrip("s")) for word in words
    )


def _claim(name: str) -> Callable[[Capabilities], str | None]:
    def find_disclaimer(has: Capabilities) -> str | None:
        return f"{name} is not enforced" if getattr(has, name) == "not enforced" else None

    return find_disclaimer


def _claim_fork_bomb(has: Capabilities) -> str | None:
    return None if has.pids == "enforced" and has.isolated else "pids is not enforced by the kernel"


def _claim_cpus(has: Capabilities) -> str | None:
    return None if has.cpus == "enforced" else "cpus is not enforced"


RULES = (
    SandboxRule(
        name="limit-memory",
        promise="A memory bomb does not get more than the box may have.",
        check=check_memory,
        find_disclaimer=_claim("memory"),
    ),
    SandboxRule(
        name="limit-pids",
        promise="A box does not run more processes than it may.",
        check=check_processes,
        find_disclaimer=_claim("pids"),
    ),
    SandboxRule(
        name="fork-bomb",
        promise="A fork bomb is ended, and the box goes on.",
        check=check_fork_bomb,
        find_disclaimer=_claim_fork_bomb,
    ),
    SandboxRule(
        name="limit-disk",
        promise="A box does not write more to its disk than it may.",
        check=check_disk,
        find_disclaimer=_claim("disk"),
    ),
    SandboxRule(
        name="limit-cpus",
        promise="A box does not use more CPU time than it may.",
        check=check_cpus,
        find_disclaimer=_claim_cpus,
    ),
)
