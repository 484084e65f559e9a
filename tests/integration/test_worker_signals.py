"""Ctrl-C, SIGTERM and SIGKILL of `castform train` whose environment is in a worker process."""

from __future__ import annotations

import multiprocessing
import os
import select
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from castform.runs import RunStore
from castform_trainer.learning.checkpoint import list_checkpoints
from castform_trainer.testing import make_tiny_model

sys.path.insert(0, str(Path(__file__).parent))  # for the processes that the tests start, too
from train_runs import ENVIRONMENT, run_command, write_environment

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="waits for processes in Linux's way"),
    pytest.mark.timeout(600),
]
STUCK = ENVIRONMENT.replace(
    "        text = rollout",
    """        import asyncio, os, pathlib, subprocess

        here = pathlib.Path(__file__).parent
        wanted = here / "signal"
        if rollout.split == "train" and wanted.exists() and len(list(here.glob("runs/*/checkpoints/step-*"))) == 2:
            number = int(wanted.read_text() or 0)
            if number:
                program = subprocess.Popen(["sleep", "600"])
                (here / "pids").write_text(f"{os.getpid()} {program.pid}")
                wanted.write_text("")
                os.kill(os.getppid(), number)
            await asyncio.Event().wait()
        text = rollout""",
    1,
)
"""While there is a file `signal`, its rollouts of the second step send that signal to the host, once, and never end."""
SETTINGS = {
    "model.dtype": "float32",
    "model.device": "cpu",
    "run.steps": 2,
    "run.threads": 1,
    "run.deterministic": True,
    "sampling.max_new_tokens": 6,
    "rl.groups_per_step": 2,
    "rl.group_size": 3,
    "rl.max_refills": 1,
    "optimizer.learning_rate": 0.02,
    "lora.rank": 4,
    "eval.examples": 2,
    "checkpoint.every": 1,
}


@dataclass(frozen=True, kw_only=True)
class Desk:
    """Where a run lies, and how to start the command line in a process of its own."""

    home: Path
    words: list[str]
    processes: multiprocessing.context.ForkServerContext

    def castform(self, *words: str) -> int:
        """Return the exit code; negative: the signal that ended it."""
        child = self.processes.Process(target=run_command, args=(words, str(self.home)))
        child.start()
        child.join(280)
        assert child.exitcode is not None
        return child.exitcode

    def train(self, workers: int) -> int:
        return self.castform("train", *self.words, "--workers", str(workers))

    def runs(self) -> list[tuple[str, str]]:
        with RunStore.open(self.home) as store:
            return [(run.run_id, run.status) for run in store.list_runs()]

    def adapter(self) -> bytes:
        ((run_id, status),) = self.runs()
        assert status == "finished"
        return (self.home / "runs" / run_id / "adapter" / "adapter_model.safetensors").read_bytes()


@pytest.fixture(scope="module")
def processes():
    """Children are forked from a server that has torch loaded: a start takes a blink."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["castform_trainer.rl.run", "transformers.models.qwen3.modeling_qwen3"])
    return context


@pytest.fixture(scope="module")
def make_desk(tmp_path_factory, processes):
    model = make_tiny_model(tmp_path_factory.mktemp("model"))

    def make() -> Desk:
        home = tmp_path_factory.mktemp("home")
        words = [str(write_environment(home, STUCK)), "-m", str(model)]
        words += [
            word for key, value in SETTINGS.items() for word in ("--set", f"{key}={str(value).lower()}")
        ]
        return Desk(home=home, words=words, processes=processes)

    return make


@pytest.fixture(scope="module")
def straight(make_desk) -> bytes:
    """The adapter of the run that nobody disturbs, in one process."""
    desk = make_desk()
    assert desk.train(workers=0) == 0
    return desk.adapter()


def has_ended(pid: int) -> bool:
    """Wait until a process has ended that is nobody's child here."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    ready, _, _ = select.select([handle], [], [], 30)
    os.close(handle)
    return bool(ready)


@pytest.mark.parametrize(
    ("number", "code", "status"),
    [
        (signal.SIGINT, 130, "stopped"),
        (signal.SIGTERM, 130, "stopped"),
        (signal.SIGKILL, -signal.SIGKILL, "lost"),
    ],
)
def test_a_signal_leaves_a_checkpoint_and_no_process_and_the_run_goes_on(
    make_desk, straight, number, code, status
):
    desk = make_desk()
    (desk.home / "signal").write_text(str(int(number)))
    assert desk.train(workers=1) == code
    worker, program = map(int, (desk.home / "pids").read_text().split())
    assert (has_ended(worker), has_ended(program)) == (True, True)
    ((run_id, found),) = desk.runs()
    assert found == status
    checkpoints = list_checkpoints(desk.home / "runs" / run_id / "checkpoints")
    assert [checkpoint.step for checkpoint in checkpoints] == [0, 1]

    (desk.home / "signal").unlink()
    assert desk.castform("train", "--resume", run_id) == 0
    assert desk.adapter() == straight
