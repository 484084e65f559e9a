"""Many short Harbor trials at a time: how fast they go beside the bare programs, and what they leave behind.

The runner of `castform harbor run` plays one tiny task with the oracle, in a process of its own. Beside
it, chunk by chunk in turn so that a noisy machine is noisy for both, the floor: as many boxes by
the command line (`docker run`, three `docker exec`, `docker rm`; or three `bwrap`) that do the same three things.
What belongs to the trials is counted while they run, which shows that the counting sees it, and after.

    python bench/harbor_trials.py --providers docker bubblewrap
    python bench/harbor_trials.py --trials 48 --chunks 2 --json
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import json
import os
import resource
import secrets
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from sandbox_start import make_bwrap_root, run

IMAGE = "castform/base:local"
IMAGE_LABEL = "castform.bench"
PROBLEMS_SHOWN = 5
LIMIT_SECONDS = 1800
LOOK_SECONDS = 2.0
SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER: what the trials' process leaves running becomes a child of this one."""

PREPARE = 'mkdir -p "$1/logs/agent" "$1/logs/verifier" && chmod 777 "$1/logs/agent" "$1/logs/verifier"'
SOLVE = 'echo 55 > "$1/sum.txt"'
TEST = '[ "$(cat "$1/sum.txt")" = 55 ] && echo 1 > "$1/logs/verifier/reward.txt"'
FILES = {
    "task.toml": 'schema_version = "1.4"\n\n[task]\nname = "castform/sum"\n\n[agent]\ntimeout_sec = 120\n\n'
    "[verifier]\ntimeout_sec = 120\n\n[environment]\ncpus = 1\nmemory_mb = 256\nstorage_mb = 64\n",
    "instruction.md": "Write the sum of the numbers 1 to 10 to /sum.txt.\n",
    "solution/solve.sh": "#!/bin/sh\necho 55 > /sum.txt\n",
    "tests/test.sh": '#!/bin/sh\n[ "$(cat /sum.txt)" = 55 ] && echo 1 > /logs/verifier/reward.txt\n',
}


@dataclass(frozen=True, kw_only=True)
class Phase:
    """One chunk of trials or of the floor."""

    what: str
    count: int
    wall_seconds: float
    cpu_seconds: float
    """User and system time of this process and its children; an engine's own is not in it."""


@dataclass(kw_only=True)
class Report:
    """What the trials' process says of itself."""

    phases: list[Phase] = field(default_factory=list)
    trial_seconds: list[float] = field(default_factory=list)
    bad: list[str] = field(default_factory=list)
    """Trials that did not end well with a reward of 1."""
    peak_mb: float = 0.0
    files_open: tuple[int, int] = (0, 0)
    """Before the first box and after the last."""
    threads_left: int = 0


def write_task(folder: Path, token: str) -> Path:
    files = {**FILES, "environment/Dockerfile": f"FROM {IMAGE}\nLABEL {IMAGE_LABEL}={token}\n"}
    for name, text in files.items():
        file = folder / "task" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o755 if name.endswith(".sh") else 0o644)
    return folder / "task"


# What runs in the trials' process.


async def run_docker_floor(token: str) -> None:
    box = f"castform-bench-{secrets.token_hex(6)}"
    limits = ["--network=none", "--cpus=1", "--memory=256m", "--memory-swap=256m", "--pids-limit=256"]
    labels = [f"--label={IMAGE_LABEL}={token}"]
    await run("docker", "run", "--detach", f"--name={box}", *labels, *limits, IMAGE, "sleep", "infinity")
    try:
        for script in (PREPARE, SOLVE, TEST):
            await run("docker", "exec", box, "sh", "-c", script, "sh", "/tmp")
    finally:
        await run("docker", "rm", "--force", box)


async def run_bubblewrap_floor(token: str) -> None:
    with tempfile.TemporaryDirectory(prefix="castform-floor-") as work:
        root = [*make_bwrap_root(), "--bind", work, "/tmp"]
        for script in (PREPARE, SOLVE, TEST):
            await run("bwrap", *root, "--", "sh", "-c", script, "sh", "/tmp")


FLOORS: dict[str, Callable[[str], Awaitable[None]]] = {
    "docker": run_docker_floor,
    "bubblewrap": run_bubblewrap_floor,
}


async def run_floor(provider: str, token: str, count: int, concurrency: int) -> None:
    gate = asyncio.Semaphore(concurrency)

    async def run_one() -> None:
        async with gate:
            await FLOORS[provider](token)

    await asyncio.gather(*(run_one() for _ in range(count)))


async def run_trials(arguments: argparse.Namespace, folder: Path) -> Report:
    """Play the chunks in turn with their floors. The first trial, which builds the image, is not timed."""
    from castform.sandbox import load_provider
    from castform_harbor.job import Job, JobTrial, run_job
    from castform_harbor.reference_agents import make_reference_agent
    from castform_harbor.task import load_task
    from castform_harbor.trial_types import TrialOptions

    task, name, report = load_task(folder / "task"), arguments.providers[0], Report()
    before = count_open()
    provider = load_provider(name)

    async def play(chunk: str, count: int) -> list[JobTrial]:
        job = Job(
            tasks=[task],
            folder=folder / "jobs" / chunk,
            agent="oracle",
            sandbox=name,
            attempts=count,
            concurrency=arguments.concurrency,
            options=TrialOptions(network="none"),
        )
        return await run_job(job, harness=make_reference_agent("oracle"), provider=provider)

    async def timed(what: str, count: int, work: Awaitable[object]) -> None:
        began, cpu = time.perf_counter(), cpu_seconds()
        await work
        wall, used = time.perf_counter() - began, cpu_seconds() - cpu
        report.phases.append(Phase(what=what, count=count, wall_seconds=wall, cpu_seconds=used))

    async def play_and_note(chunk: str, count: int) -> None:
        for trial in await play(chunk, count):
            report.trial_seconds.append(trial.seconds or 0.0)
            if trial.status != "ok" or trial.reward != 1.0:
                report.bad.append(f"{trial.name}: {trial.status} {trial.reward} {trial.error}")

    try:
        await play("first", 1)
        each = arguments.trials // arguments.chunks
        for number in range(arguments.chunks):
            count = each + (arguments.trials % arguments.chunks if number == 0 else 0)
            floor = count if arguments.floor is None else -(-arguments.floor // arguments.chunks)
            await timed("floor", floor, run_floor(name, arguments.token, floor, arguments.concurrency))
            await timed("trials", count, play_and_note(f"chunk-{number}", count))
    finally:
        await provider.aclose()
    report.files_open = (before, count_open())
    report.peak_mb = peak_mb()
    return report


def count_open() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def cpu_seconds() -> float:
    uses = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(use.ru_utime + use.ru_stime for use in uses)


def peak_mb() -> float:
    """Return the most memory that this process had resident, in MB."""
    text = Path("/proc/self/status").read_text()
    return int(text.partition("VmHWM:")[2].split()[0]) * 1024 / 1e6


def run_inside(arguments: argparse.Namespace, folder: Path) -> None:
    async def run_until_told() -> Report:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        return await run_trials(arguments, folder)

    report = asyncio.run(run_until_told())
    until = time.monotonic() + LOOK_SECONDS
    while threading.active_count() > 1 and time.monotonic() < until:  # pools end late
        time.sleep(0.01)
    report.threads_left = threading.active_count() - 1
    (folder / "report.json").write_text(json.dumps(asdict(report)))


# What counts, from outside.


def count_lines(*words: str) -> int:
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return len(done.stdout.split())


def count_docker(pid: int, token: str) -> dict[str, int]:
    owner = f"label=castform.owner.pid={pid}"
    return {
        "containers": count_lines("docker", "ps", "--all", "--quiet", "--filter", owner),
        "containers of the floor": count_lines(
            "docker", "ps", "-aq", "--filter", f"label={IMAGE_LABEL}={token}"
        ),
        "networks": count_lines("docker", "network", "ls", "--quiet", "--filter", owner),
    }


def count_kernel(names: Iterable[str]) -> dict[str, int]:
    """Count control groups and mounts that carry the names of boxes."""
    known = set(names)
    groups = [group.name for group in Path("/sys/fs/cgroup").glob("*/castform/*")]
    groups += [group.name for group in Path("/sys/fs/cgroup").glob("castform/*")]
    mounts = Path("/proc/self/mountinfo").read_text()
    return {
        "control groups": sum(name.partition(".")[0] in known for name in groups),
        "mounts": sum(mounts.count(name) for name in known),
    }


def list_boxes(folder: Path) -> set[str]:
    """Return the ids of the boxes that there were, as the trials' logs name them, and of those that there are."""
    found = {
        line.rsplit(" ", 1)[-1]
        for log in folder.glob("jobs/*/*/trial.log")
        for line in log.open()
        if " started in " in line
    }
    found = {name.strip() for name in found}
    return found | {place.name for place in (folder / "home/sandboxes/bubblewrap/boxes").glob("*")}


def count_all(provider: str, folder: Path, pid: int, token: str) -> dict[str, int]:
    counts = count_docker(pid, token) if provider == "docker" else count_kernel(list_boxes(folder))
    counts["box folders"] = len(list((folder / "home/sandboxes/bubblewrap/boxes").glob("*")))
    counts["temporary files, sockets and folders"] = sum(
        len(folders) + len(files) for _, folders, files in os.walk(folder / "tmp")
    )
    return counts


def count_children(trials: int) -> int:
    """Count processes that the trials' own left: they became this process's. What only has to be reaped is."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return sum(os.waitpid(int(pid), os.WNOHANG)[0] == 0 for pid in children if int(pid) != trials)


@dataclass(kw_only=True)
class Measured:
    """One provider."""

    provider: str
    report: Report
    most_seen: dict[str, int]
    left: dict[str, int]

    def rate(self, what: str) -> float:
        phases = [phase for phase in self.report.phases if phase.what == what]
        return sum(phase.count for phase in phases) / sum(phase.wall_seconds for phase in phases)

    def cpu_ms(self, what: str) -> float:
        phases = [phase for phase in self.report.phases if phase.what == what]
        return 1000 * sum(phase.cpu_seconds for phase in phases) / sum(phase.count for phase in phases)

    def ratio(self) -> float:
        """Return the median, over the chunks, of a trial's time beside its floor's."""
        floors, trials = self.report.phases[0::2], self.report.phases[1::2]
        return statistics.median(
            trial.wall_seconds / trial.count / (floor.wall_seconds / floor.count)
            for floor, trial in zip(floors, trials, strict=True)
        )


def measure(provider: str, arguments: argparse.Namespace) -> Measured:
    """Let a process of its own, with folders of its own, play; count meanwhile and afterwards."""
    token = secrets.token_hex(6)
    with tempfile.TemporaryDirectory(prefix="castform-bench-") as work:
        folder = Path(work)
        for name in ("tmp", "home", "jobs"):
            (folder / name).mkdir()
        write_task(folder, token)
        words = [sys.executable, __file__, "--inside", work, "--token", token, "--providers", provider]
        words += [f"--{name}={getattr(arguments, name)}" for name in ("trials", "chunks", "concurrency")]
        words += [] if arguments.floor is None else [f"--floor={arguments.floor}"]
        own = {"TMPDIR": str(folder / "tmp"), "CASTFORM_HOME": str(folder / "home")}
        process = subprocess.Popen(words, env={**os.environ, **own})
        most: dict[str, int] = {}
        try:
            deadline = time.monotonic() + LIMIT_SECONDS
            while process.poll() is None:
                for name, count in count_all(provider, folder, process.pid, token).items():
                    most[name] = max(most.get(name, 0), count)
                count_children(process.pid)
                if time.monotonic() > deadline:
                    raise SystemExit(f"the trials took longer than {LIMIT_SECONDS} s")
                time.sleep(LOOK_SECONDS)
            left = {
                **count_all(provider, folder, process.pid, token),
                "processes": count_children(process.pid),
            }
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
            remove_images(token)
        if process.returncode != 0:
            raise SystemExit(f"the trials' process ended with {process.returncode}")
        said = json.loads((folder / "report.json").read_text())
        said["phases"] = [Phase(**phase) for phase in said["phases"]]
        return Measured(provider=provider, report=Report(**said), most_seen=most, left=left)


def remove_images(token: str) -> None:
    """Remove the image of the task, which stays on purpose: an equal one is built once."""
    words = ["docker", "image", "ls", "--quiet", "--filter", f"label={IMAGE_LABEL}={token}"]
    try:
        found = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
    except (OSError, subprocess.CalledProcessError):
        return  # no engine here
    for image in set(found):
        subprocess.run(["docker", "image", "rm", image], stdout=subprocess.DEVNULL, check=True)


def describe(measured: Measured) -> str:
    report = measured.report
    lines = [
        f"{measured.provider}: {len(report.trial_seconds)} trials, {len(report.bad)} of them not ok with reward 1",
        *(f"    {problem}" for problem in report.bad[:PROBLEMS_SHOWN]),
        f"    {measured.rate('trials'):.2f} trials a second, the floor {measured.rate('floor'):.2f}",
        f"    {measured.ratio():.2f} times the floor's time (median of {len(report.phases) // 2} chunks)",
        f"    {measured.cpu_ms('trials'):.0f} ms of CPU a trial, the floor {measured.cpu_ms('floor'):.0f}, "
        "the engine's own not counted",
        f"    {statistics.median(report.trial_seconds):.2f} s a trial (median)",
        f"    {report.peak_mb:.0f} MB at most in the process",
        f"    files open before and after: {report.files_open[0]}, {report.files_open[1]}; "
        f"threads left beside the main one: {report.threads_left}",
    ]
    lines += [
        f"    {name}: at most {most} seen, {measured.left[name]} left"
        for name, most in measured.most_seen.items()
    ]
    return "\n".join(lines)


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--providers", nargs="+", choices=list(FLOORS), default=list(FLOORS))
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--floor", type=int, help="boxes of the floor; default: as many as trials")
    parser.add_argument("--chunks", type=int, default=4)
    parser.add_argument("--concurrency", type=int, default=16)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--token", default="", help=argparse.SUPPRESS)
    arguments = parser.parse_args(words)
    if arguments.inside is not None:
        run_inside(arguments, arguments.inside)
        return 0
    signal.signal(
        signal.SIGTERM, lambda *_: sys.exit(1)
    )  # the trials' process is ended, which closes its boxes
    ctypes.CDLL(None, use_errno=True).prctl(SUBREAPER, 1)
    failed = False
    for provider in arguments.providers:
        measured = measure(provider, arguments)
        failed = failed or any(measured.left.values()) or bool(measured.report.bad)
        print(json.dumps(asdict(measured)) if arguments.json else describe(measured), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
