"""How long a sandbox takes to its first command, and what a command costs, beside the engine's own tools.

Each round does everything once, in turn, so that a noisy machine is noisy for all; medians count.

    python bench/sandbox_start.py --rounds 15
    python bench/sandbox_start.py --providers docker bubblewrap
    python bench/sandbox_start.py --providers docker --image castform/busybox:local --json
"""

from __future__ import annotations

import argparse
import asyncio
import json
import secrets
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from castform.sandbox import load_provider
from castform.sandbox.contract import BoxRequest, Limits, Sandbox, SandboxProvider

LIMITS = Limits(cpus=1.0, memory_mb=256, pids=64, disk_mb=256)


@dataclass(kw_only=True)
class Measured:
    """Seconds of each round, by what was done."""

    rounds: dict[str, list[float]] = field(default_factory=dict)

    async def time(self, name: str, work: Callable[[], Awaitable[object]]) -> None:
        began = time.perf_counter()
        await work()
        self.rounds.setdefault(name, []).append(time.perf_counter() - began)

    def medians(self) -> dict[str, float]:
        return {name: statistics.median(values) for name, values in self.rounds.items()}


async def run(*words: str) -> None:
    """Run a program of this machine to its end."""
    process = await asyncio.create_subprocess_exec(
        *words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    _, said = await process.communicate()
    if process.returncode:
        raise SystemExit(
            f"{' '.join(words)} ended with {process.returncode}: {said.decode(errors='replace')}"
        )


async def run_true(box: Sandbox) -> None:
    done = await box.exec(["true"])
    assert done.exit_code == 0, done


class DockerBaseline:
    """`docker run` and `docker exec`, with the same limits."""

    name = "docker"

    def __init__(self, image: str) -> None:
        self._image = image
        self._box = f"castform-bench-{secrets.token_hex(4)}"
        self._limits = [
            "--network=none",
            "--cpus=1",
            "--memory=256m",
            "--memory-swap=256m",
            "--pids-limit=64",
        ]

    async def open(self) -> None:
        loop = "while :; do sleep 1000; done"
        await run(
            "docker", "run", "--detach", f"--name={self._box}", *self._limits, self._image, "sh", "-c", loop
        )

    async def measure(self, measured: Measured) -> None:
        await measured.time("docker run", self._run_once)
        await measured.time("docker exec", lambda: run("docker", "exec", self._box, "true"))

    async def _run_once(self) -> None:
        await run("docker", "run", "--rm", *self._limits, self._image, "true")

    async def close(self) -> None:
        await run("docker", "rm", "--force", self._box)


def make_bwrap_root() -> list[str]:
    """Return options for a root of this machine's programs alone: all of `/` brings each of its mounts along."""
    words = ["--unshare-all", "--ro-bind", "/usr", "/usr", "--proc", "/proc", "--dev", "/dev"]
    for name in ("bin", "lib", "lib64"):
        place = Path("/", name)
        if place.is_symlink():
            words += ["--symlink", str(place.readlink()), f"/{name}"]
        elif place.exists():
            words += ["--ro-bind", f"/{name}", f"/{name}"]
    return words


class BubblewrapBaseline:
    """`bwrap … true` over this machine's programs: new namespaces of every kind, no limits, no disk."""

    name = "bubblewrap"

    def __init__(self, image: str) -> None:
        pass  # there are no images

    async def open(self) -> None:
        pass

    async def measure(self, measured: Measured) -> None:
        words = [*make_bwrap_root(), "--", "true"]
        await measured.time("bwrap run", lambda: run("bwrap", *words))

    async def close(self) -> None:
        pass


Baseline = DockerBaseline | BubblewrapBaseline
BASELINES: dict[str, type[Baseline]] = {"docker": DockerBaseline, "bubblewrap": BubblewrapBaseline}
"""What runs beside a provider; a provider without one is measured alone."""
TOOLS = {"docker": "docker", "bubblewrap": "bwrap"}
"""The programs whose names the baselines' rows begin with."""


class ProviderRuns:
    """A provider of castform's: a cold start, the first command of a box that is ready, a command in a box that runs."""

    def __init__(self, name: str, image: str | None) -> None:
        self.name = name
        self._provider: SandboxProvider = load_provider(name)
        self._request = BoxRequest(image=image, limits=LIMITS)
        self._box: Sandbox | None = None

    async def open(self) -> None:
        await self._provider.check()
        self._box = await self._provider.start(self._request)

    async def measure(self, measured: Measured) -> None:
        assert self._box is not None
        box = self._box
        taken: list[Sandbox] = []

        async def start_cold() -> None:
            taken.append(await self._provider.start(self._request))
            await run_true(taken[-1])

        async def start_warm() -> None:
            await run_true(ready)

        await measured.time(f"{self.name}: cold start to first exec", start_cold)
        ready = await self._provider.start(self._request)  # what a warm pool hands out
        taken.append(ready)
        await measured.time(f"{self.name}: warm start to first exec", start_warm)
        await measured.time(f"{self.name}: exec", lambda: run_true(box))
        for used in taken:
            await used.close()

    async def close(self) -> None:
        await self._provider.aclose()


async def measure(providers: list[str], image: str | None, rounds: int) -> Measured:
    measured = Measured()
    runs: list[Baseline | ProviderRuns] = []
    try:
        for name in providers:
            if name in BASELINES:
                runs.append(BASELINES[name](image or "castform/base:local"))
            runs.append(ProviderRuns(name, image if name == "docker" else None))
        for each in runs:
            await each.open()
        for number in range(rounds + 1):
            for each in runs if number % 2 else reversed(runs):
                await each.measure(measured if number else Measured())  # the first round warms caches
    finally:
        for each in reversed(runs):
            await each.close()
    return measured


def compare(medians: dict[str, float]) -> dict[str, tuple[str, float]]:
    """Return what each of castform's is measured against, and how many times as long it takes.

    A start is held against the tool's own start, a command in a box that is there against the tool's own way into
    one; `bwrap` has none, so that every command is a start of its own.
    """
    found = {}
    for name, seconds in medians.items():
        provider, _, what = name.partition(": ")
        tool = TOOLS.get(provider)
        plain = [f"{tool} run"] if "cold" in what else [f"{tool} exec", f"{tool} run"]
        against = next((one for one in plain if what and one in medians), None)
        if against is not None:
            found[name] = (against, seconds / medians[against])
    return found


def describe(medians: dict[str, float]) -> str:
    lines = [f"{name:40} {seconds * 1000:9.1f} ms" for name, seconds in medians.items()]
    lines += [
        f"{name:40} {times:9.2f} times {against}" for name, (against, times) in compare(medians).items()
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--providers", nargs="+", default=["docker"])
    parser.add_argument("--image", default=None, help="for docker; default: its plain image")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    measured = asyncio.run(measure(arguments.providers, arguments.image, arguments.rounds))
    medians = measured.medians()
    if arguments.json:
        times = {name: {"of": against, "times": times} for name, (against, times) in compare(medians).items()}
        print(json.dumps({"seconds": medians, "ratios": times}, indent=2))
    else:
        print(describe(medians))


if __name__ == "__main__":
    sys.exit(main())
