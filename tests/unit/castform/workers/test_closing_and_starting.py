"""What is left when closing is cancelled, when a process cannot be started, and when a finalizer comes in between."""

from __future__ import annotations

import asyncio
import os
import resource
import sys
import threading
from pathlib import Path

import pytest
from acting_groups import play

from castform.errors import MissingError
from castform.workers.interpreter import Interpreter, this_interpreter
from castform.workers.limits import WorkerLimits
from castform.workers.process import WorkerProcess
from castform.workers.reactor import Reactor
from castform.workers.start import start_worker_environment


async def test_closing_goes_on_when_who_waits_for_it_is_cancelled(start, monkeypatch):
    faults = []
    monkeypatch.setattr(threading, "excepthook", faults.append)
    environment = start(1)
    (pid,) = environment.list_pids()
    before = [thread for thread in threading.enumerate() if thread.name == "castform-workers"]
    closing = asyncio.create_task(environment.aclose())
    await asyncio.sleep(0)  # until it waits for the processes' end
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    for thread in before:
        await asyncio.to_thread(thread.join, 30)
    assert faults == []
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    (rollout,) = await play(environment, "list_imports")
    assert rollout.termination_reason == "finished"


def descriptors():
    return {int(path.name) for path in Path("/dev/fd").iterdir()}  # one of them is of the listing itself


def test_a_process_that_cannot_be_started_leaves_no_pipe_open():
    here = this_interpreter()
    unusable = Interpreter(python=here.python, env={**here.env, "A": "\0"})
    before = descriptors()
    with pytest.raises(ValueError, match="null byte"):
        WorkerProcess("worker 0", unusable, WorkerLimits())
    assert descriptors() == before


def fill_descriptors():
    """Open one file until there may be no more; return them all."""
    taken = [os.open(os.devnull, os.O_RDONLY)]
    try:
        while True:
            taken.append(os.dup(taken[0]))
    except OSError:
        return taken


@pytest.mark.parametrize("free", [1, 3, 5])
def test_running_out_of_descriptors_leaves_as_many_as_there_were(free):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(descriptors()) + 20, hard))
    try:
        taken = fill_descriptors()
        for _ in range(free):
            os.close(taken.pop())
        with pytest.raises(OSError, match="Too many open files"):
            WorkerProcess("worker 0", this_interpreter(), WorkerLimits())
        again = fill_descriptors()
        taken += again
        assert len(again) == free
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_program_that_is_gone_and_one_that_the_system_refuses_are_told_apart(tmp_path):
    gone = Interpreter(python=tmp_path / "python", env={})
    with pytest.raises(MissingError) as caught:
        start_worker_environment("arith/add", interpreter=gone, workers=1)
    assert caught.value.hint == "the Python of the worker processes is gone; install the plugin again"
    here = this_interpreter()
    large = Interpreter(python=here.python, env={**here.env, "A": "a" * 2**24})
    with pytest.raises(MissingError, match="Argument list too long") as caught:
        start_worker_environment("arith/add", interpreter=large, workers=1)
    assert "the system refuses another process" in caught.value.hint


def test_a_finalizer_may_post_while_its_thread_is_posting():
    reactor = Reactor(
        name="test",
        tick_seconds=0.01,
        on_tick=lambda: None,
        is_done=lambda: len(done) == 2,
        on_error=lambda error: None,
        at_end=lambda: ended.set(),
    )
    done, ended = [], threading.Event()

    def interrupt(frame, event, function):
        """Post within `post`, where a collection of garbage may run a finalizer."""
        if event == "c_call" and function is os.write:
            sys.setprofile(None)
            reactor.post(lambda: done.append("inner"))

    def post():
        sys.setprofile(interrupt)
        reactor.post(lambda: done.append("outer"))

    posting = threading.Thread(target=post, daemon=True)
    posting.start()
    posting.join(10)
    assert not posting.is_alive()
    reactor.start()
    assert ended.wait(10) and done == ["outer", "inner"]
