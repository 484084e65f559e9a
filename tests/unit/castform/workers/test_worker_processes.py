"""What a worker process is in its system: its end, its imports, what it inherits, and how its start fails."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from acting_groups import ACTING, play

from castform.errors import CastformError, MissingError, UsageError
from castform.plugins import load_environment
from castform.workers.interpreter import Interpreter, this_interpreter
from castform.workers.start import start_worker_environment

HOST = """
import asyncio, sys
from pathlib import Path
from benchmax.auth import StaticBearerAuth
from benchmax.envs import Example, RolloutRequest
from castform.plugins import load_environment

async def main(acting, folder):
    environment = load_environment(acting, {"folder": folder}, workers=2).environment
    await environment.create_dataset("train", Path())
    example = Example("x", {"act": "hold_the_lock"})
    request = RolloutRequest("r", example, "m", "http://127.0.0.1:9/v1", StaticBearerAuth("k"))
    holding = asyncio.create_task(environment.run_rollout(request))
    while not (Path(folder) / "here-r").exists():
        await asyncio.sleep(0.01)
    print(*environment.list_pids(), flush=True)
    await holding

asyncio.run(main(*sys.argv[1:]))
"""


def wait_for_end(pid, seconds=30):
    """Wait until a process has ended that is nobody's child here."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    ready, _, _ = select.select([handle], [], [], seconds)
    os.close(handle)
    return bool(ready)


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="waits for processes in Linux's way")
def test_workers_end_with_a_killed_host_even_one_that_holds_the_interpreter(tmp_path):
    command = [sys.executable, "-c", HOST, ACTING, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as host:
        try:
            pids = [int(word) for word in host.stdout.readline().split()]
        finally:
            host.send_signal(signal.SIGKILL)
    assert len(pids) == 2
    assert [pid for pid in pids if not wait_for_end(pid)] == []


BLOCK = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names!r}:
            raise ImportError(f"{{name}} is not for workers")

sys.meta_path.insert(0, Absent())
"""


async def test_a_worker_needs_neither_pydantic_nor_what_else_a_host_has(tmp_path):
    """Its virtual environment may have another version of any of them, or none."""
    names = {"pydantic", "pydantic_core", "rich", "sqlalchemy", "openai", "httpx", "aiohttp", "torch"}
    (tmp_path / "sitecustomize.py").write_text(BLOCK.format(names=names))
    here = this_interpreter()
    bare = Interpreter(
        python=here.python, env={**here.env, "PYTHONPATH": str(tmp_path)}, import_path=here.import_path
    )
    environment = start_worker_environment(ACTING, interpreter=bare, workers=1).environment
    try:
        (rollout,) = await play(environment, "list_imports")
        assert (rollout.termination_reason, rollout.rewards) == ("finished", {"r": 1.0})
        (rollout,) = await play(environment, "list_descriptors")
        assert rollout.rewards == {"inherited": 0.0}
    finally:
        await environment.aclose()


def failure_of(id, args, workers):
    with pytest.raises(CastformError) as caught:
        load_environment(id, args, workers=workers)
    error = caught.value
    return type(error), str(error), error.hint


@pytest.mark.parametrize(
    ("id", "args"),
    [
        ("arith/addd", {}),
        ("arith/add", {"train_examples": 0, "no": 1}),
        ("nowhere.py", {}),
        (ACTING, {"folder": "", "no": 1}),
        (str(Path(__file__).parent / "raises.py"), {}),
    ],
)
def test_an_environment_that_cannot_be_loaded_is_told_in_the_same_words(id, args):
    assert failure_of(id, args, workers=1) == failure_of(id, args, workers=0)


def test_an_interpreter_that_is_gone_is_missing(tmp_path):
    gone = Interpreter(python=tmp_path / "python", env={})
    with pytest.raises(MissingError, match=r"cannot run .*/python \(No such file or directory\)"):
        start_worker_environment(ACTING, interpreter=gone, workers=1)


def test_a_program_that_is_no_worker_is_told_by_its_end():
    other = Interpreter(python=Path("/bin/echo"), env={})
    with pytest.raises(
        CastformError, match=r"cannot be loaded: .* ended with exit code 0; .*castform.workers.main"
    ):
        start_worker_environment(ACTING, interpreter=other, workers=1)


@pytest.mark.parametrize("workers", [-1, 257, True])
def test_a_number_of_workers_that_is_none_is_refused(workers):
    with pytest.raises(UsageError, match=f"workers is {workers}, not a number from 1 to 256"):
        start_worker_environment(ACTING, interpreter=this_interpreter(), workers=workers)
