"""What goes wrong around a box, in real ones: never a zero that nobody earned, and nothing is left."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from castform.harness import load_harness
from castform.harness.contract import HarnessResult
from castform.sandbox import load_provider
from castform.sandbox.contract import BoxRequest, Limits
from castform_harbor.task import load_task
from castform_harbor.trial import run_trial
from castform_harbor.trial_types import TrialOptions
from castform_trainer.testing import make_tiny_model

COUNTED = Path(__file__).parent / "hostile_tasks" / "counted"
FRESH = TrialOptions(verifier="fresh")
BOXES = [
    pytest.param("docker", marks=pytest.mark.docker),
    pytest.param("bubblewrap", marks=pytest.mark.bubblewrap),
]
BUBBLEWRAP = BOXES[1:]


@pytest.fixture
async def provider(request):
    made = load_provider(request.param)
    yield made
    await made.aclose()


def choose_seconds(tmp_path: Path) -> str:
    """Return how long to sleep so that no other test, run or checkout on this machine sleeps as long."""
    return str(10**8 + int(hashlib.sha256(f"{os.getpid()} {tmp_path}".encode()).hexdigest()[:7], 16))


class Sleeper:
    """Works for as long as it is let."""

    name, version = "sleeper", None

    def __init__(self, seconds: str) -> None:
        self.seconds = seconds

    async def setup(self, sandbox):
        """Nothing."""

    async def run(self, task, sandbox, endpoint):
        await sandbox.exec(["sh", "-c", f"echo 42 > /app/answer.txt; exec sleep {self.seconds}"])
        return HarnessResult(status="finished")


def write_harness(folder: Path, script: str) -> Path:
    file = folder / "agent.toml"
    file.write_text(f"[harness]\ncommand = ['sh', '-c', '''{script}''']\n")
    return file


def wait_for(fact: Callable[[], object]) -> object:
    """Poll for a fact, for two minutes at most, and return it."""
    end = time.monotonic() + 120
    while not (found := fact()):
        assert time.monotonic() < end, "it did not come to pass within two minutes"
        time.sleep(0.05)
    return found


def list_containers(label: str) -> list[str]:
    words = ["docker", "ps", "--all", "--quiet", "--filter", f"label={label}"]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.split()


def kill_container(name: str) -> None:
    subprocess.run(["docker", "kill", name], check=True, capture_output=True)


def remove_container(name: str) -> None:
    subprocess.run(["docker", "rm", "--force", "--volumes", name], check=True, capture_output=True)


def start_process(command: list[str], **env: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**os.environ, **env}
    )


async def try_agent(folder: Path, provider, harness, task: Path = COUNTED):
    return await run_trial(
        load_task(task),
        harness=harness,
        provider=provider,
        trials_dir=folder,
        trial_name=f"faults-{os.getpid()}-{folder.name}",
        options=FRESH,
    )


@pytest.mark.parametrize("provider", BUBBLEWRAP, indirect=True)
async def test_a_program_that_ends_with_1_after_it_has_succeeded_keeps_its_reward(provider, tmp_path):
    harness = load_harness(write_harness(tmp_path, "echo 42 > /app/answer.txt; exit 1"))
    outcome = await try_agent(tmp_path, provider, harness)
    assert (outcome.status, outcome.rewards) == ("agent_nonzero", {"reward": 3.0})
    assert "exit code 1" in outcome.error


@pytest.mark.parametrize("provider", BUBBLEWRAP, indirect=True)
async def test_a_program_that_never_ends_is_ended_in_the_box_and_judged(provider, tmp_path):
    """E3, E4: by the task's limit, with all that it started, although it ignores signals."""
    task = tmp_path / "task"
    shutil.copytree(COUNTED, task)
    text = (task / "task.toml").read_text().replace("[agent]\ntimeout_sec = 30", "[agent]\ntimeout_sec = 2")
    (task / "task.toml").write_text(text)
    seconds = choose_seconds(tmp_path)
    script = (
        'echo 42 > /app/answer.txt; trap "" TERM INT HUP; '
        f"(setsid sleep {seconds} &); while :; do sleep {seconds}; done"
    )
    outcome = await try_agent(tmp_path, provider, load_harness(write_harness(tmp_path, script)), task)
    assert (outcome.status, outcome.rewards) == ("agent_timeout", {"reward": 3.0})
    assert find_sleepers(seconds) == []


@pytest.mark.docker
@pytest.mark.parametrize("provider", BOXES[:1], indirect=True)
async def test_a_container_that_is_killed_from_outside_leaves_no_reward(provider, tmp_path):
    """E5: the answer was there already, and yet it is no result."""
    seconds = choose_seconds(tmp_path)
    trial = asyncio.create_task(try_agent(tmp_path, provider, Sleeper(seconds)))
    await asyncio.to_thread(wait_for, lambda: find_sleepers(seconds) or trial.done())
    (container,) = list_containers(f"harbor.trial=faults-{os.getpid()}-{tmp_path.name}")
    kill_container(container)
    outcome = await trial
    assert (outcome.status, outcome.rewards, outcome.reward) == ("infra_error", None, None)
    assert list_containers(f"harbor.trial=faults-{os.getpid()}-{tmp_path.name}") == []


class Passage:
    """A socket that leads to the engine until it is cut: what is lost is the same as with the engine."""

    def __init__(self, path: Path) -> None:
        self.host = f"unix://{path}"
        self._path = path
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        self._server = await asyncio.start_unix_server(self._serve, self._path)

    async def cut(self) -> None:
        self._server.close()
        self._path.unlink()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._tasks.add(asyncio.current_task())
        from_engine, to_engine = await asyncio.open_unix_connection("/var/run/docker.sock")
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(carry(reader, to_engine))
                group.create_task(carry(from_engine, writer))
        except* OSError:
            pass
        finally:
            to_engine.transport.abort()
            writer.transport.abort()


async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()
    writer.write_eof()


@pytest.mark.docker
async def test_an_engine_that_is_lost_in_a_trial_leaves_no_reward_and_keeps_nobody_waiting(tmp_path):
    """E5: while the agent works; its programs are ended all the same."""
    passage = Passage(tmp_path / "e.sock")
    await passage.open()
    provider = load_provider("docker", host=passage.host, engine_timeout_seconds=10)
    label = f"harbor.trial=faults-{os.getpid()}-{tmp_path.name}"
    seconds = choose_seconds(tmp_path)
    try:
        trial = asyncio.create_task(try_agent(tmp_path, provider, Sleeper(seconds)))
        await asyncio.to_thread(wait_for, lambda: find_sleepers(seconds) or trial.done())
        await passage.cut()
        async with asyncio.timeout(60):
            outcome = await trial
            await provider.aclose()
        assert (outcome.status, outcome.rewards, outcome.reward) == ("infra_error", None, None)
        assert "does not answer" in outcome.error
        await asyncio.to_thread(wait_for, lambda: not find_sleepers(seconds))
    finally:
        for container in list_containers(label):
            remove_container(container)


@pytest.mark.parametrize("provider", BOXES, indirect=True)
async def test_an_image_that_does_not_build_leaves_no_reward_and_shows_why(provider, tmp_path):
    task = tmp_path / "task"
    shutil.copytree(COUNTED, task)
    (task / "environment" / "Dockerfile").write_text(
        "FROM castform/base:local\nRUN echo the reason stands here && exit 9\n"
    )
    outcome = await try_agent(tmp_path, provider, Sleeper("1"), task)
    assert (outcome.status, outcome.rewards) == ("infra_error", None)
    assert "the reason stands here" in outcome.error
    found = json.loads((outcome.trial_dir / "result.json").read_text())["exception_info"]
    assert found["exception_type"] == "SandboxBuildFailedError"


@pytest.mark.docker
async def test_containers_of_a_killed_run_are_cleared_by_the_next_start_and_no_others(tmp_path):
    """E7: SIGKILL lets nothing clear up; the next process does, of any kind."""
    task = tmp_path / "tasks" / "endless"
    shutil.copytree(COUNTED, task)
    seconds = choose_seconds(tmp_path)
    (task / "solution" / "solve.sh").write_text(f"#!/bin/sh\nexec sleep {seconds}\n")
    own = load_provider("docker")
    box = await own.start(BoxRequest(image="castform/busybox:local", limits=Limits(disk_mb=16)))
    command = [sys.executable, "-m", "castform", "harbor", "run", str(task), "--jobs-dir", str(tmp_path)]
    run = start_process(command)
    label = f"castform.owner.pid={run.pid}"
    try:
        await asyncio.to_thread(wait_for, lambda: find_sleepers(seconds) or run.poll() is not None)
        assert len(list_containers(label)) == 1, run.communicate()[0]
    finally:
        run.send_signal(signal.SIGKILL)
        run.wait()
    assert len(list_containers(label)) == 1
    later = load_provider("docker")
    next_box = await later.start(BoxRequest(image="castform/busybox:local", limits=Limits(disk_mb=16)))
    assert list_containers(label) == []
    assert (await box.exec(["true"])).exit_code == 0
    await next_box.close()
    await later.aclose()
    await own.aclose()


BOXED = """
from benchmax.envs import BaseEnv, Dataset, Example
from castform.sandbox import load_provider
from castform.sandbox.contract import BoxRequest, Limits


class Boxed(BaseEnv):
    max_turns = 1

    async def create_dataset(self, split, base_dir, *, max_examples=None):
        names = [f"{split} {i}" for i in range(4)][:max_examples]
        return Dataset(
            [Example(id=n, payload={"prompt_messages": [{"role": "user", "content": n}]}) for n in names]
        )

    async def compute_reward(self, rollout):
        provider = load_provider("docker")
        box = await provider.start(BoxRequest(image="castform/busybox:local", limits=Limits(disk_mb=16)))
        await box.exec(["sleep", "SECONDS"])
        return {"waited": 1.0}
"""


@pytest.mark.docker
async def test_containers_of_a_training_run_that_was_killed_are_cleared_by_the_next_start(tmp_path):
    """E7: the trainer itself gets SIGKILL while its rollouts are in containers."""
    seconds = choose_seconds(tmp_path)
    (tmp_path / "boxed.py").write_text(BOXED.replace("SECONDS", seconds))
    model = make_tiny_model(tmp_path / "model")
    settings = ("run.steps=1", "rl.groups_per_step=1", "rl.group_size=2", "sampling.max_new_tokens=4")
    settings += ("eval.examples=1", "model.device=cpu", "model.dtype=float32", "run.threads=1")
    command = [sys.executable, "-m", "castform", "train", str(tmp_path / "boxed.py"), "--model", str(model)]
    command += ["--workers", "0", *(word for setting in settings for word in ("--set", setting))]
    run = start_process(command, CASTFORM_HOME=str(tmp_path))
    label = f"castform.owner.pid={run.pid}"
    try:
        await asyncio.to_thread(wait_for, lambda: find_sleepers(seconds) or run.poll() is not None)
        assert list_containers(label), run.communicate()[0]
    finally:
        run.send_signal(signal.SIGKILL)
        run.wait()
    assert list_containers(label)
    later = load_provider("docker")
    await (await later.start(BoxRequest(image="castform/busybox:local", limits=Limits(disk_mb=16)))).close()
    assert list_containers(label) == [] and find_sleepers(seconds) == []
    await later.aclose()


def find_sleepers(seconds: str) -> list[int]:
    """Return the processes of this machine, in boxes or not, that sleep so long."""
    found, words = [], f"sleep\0{seconds}".encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if (entry / "cmdline").read_bytes().rstrip(b"\0").endswith(words):
                    found.append(int(entry.name))
            except OSError:
                continue
    return found
