"""Whatever ends a worker process costs the rollouts that it had, and nothing else."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest
from acting_groups import appear, play

from castform.workers.calls import WorkersFailedError
from castform.workers.limits import WorkerLimits


async def test_a_worker_killed_in_the_middle_costs_its_group_alone(start, tmp_path):
    environment = start(2)
    doomed = asyncio.create_task(play(environment, "wait", group_id="doomed", size=3))
    pid = int(await appear(tmp_path / "here-doomed-0"))
    spared = asyncio.create_task(play(environment, "wait", group_id="spared", size=2))
    other = int(await appear(tmp_path / "here-spared-0"))
    assert pid != other
    os.kill(pid, signal.SIGKILL)
    lost = await doomed
    assert [r.rollout_id for r in lost] == ["doomed-0", "doomed-1", "doomed-2"]
    assert {(r.termination_reason, r.score, tuple(r.rewards)) for r in lost} == {("worker_lost", None, ())}
    assert {r.error for r in lost} == {"the worker process was ended by SIGKILL"}
    (tmp_path / "go-spared").touch()
    assert [r.score for r in await spared] == [1.0, 1.0]
    after = await asyncio.gather(*(play(environment, "answer", group_id=f"after{n}") for n in range(4)))
    assert [r.termination_reason for (r,) in after] == ["finished"] * 4
    assert pid not in environment.list_pids() and len(environment.list_pids()) == 2


ENDS = {
    "gone": "ended with exit code 7; the last it printed: the last that it says",
    "segfault": "was ended by SIGSEGV; the last it printed: Fatal Python error: Segmentation fault",
    "hang": "was killed: its event loop did not answer for ",
    "hold_the_lock": "was killed: its event loop did not answer for ",
    "leak": "MB of memory, more than the limit of 120 MB",
    "flood": "was killed: it flooded its output; the last it printed: yyyy",
    "write_to_the_pipe": "was killed: it broke the protocol (ProtocolError('a frame of 1,195,725,856 bytes",
}


HANGS = ("hang", "hold_the_lock")


async def test_every_end_of_a_worker_is_told_and_another_one_takes_its_place(start):
    environments = {
        True: start(1, hang_seconds=2.0),
        False: start(1, memory_mb=120, output_bytes=1_000_000),  # however slow, none of these hangs
    }
    seen = {}
    for act in ENDS:
        environment = environments[act in HANGS]
        lost = await play(environment, act, group_id=act, size=2)
        assert {(r.termination_reason, r.score, tuple(r.rewards)) for r in lost} == {
            ("worker_lost", None, ())
        }
        seen[act] = lost[0].error
        (fine,) = await play(environment, "answer", group_id=f"after-{act}")
        assert fine.score == 0.5 + fine.rewards["pid"]
    for act, words in ENDS.items():
        assert words in seen[act], seen[act]
    assert "hang (acting.py:" in seen["hang"]


async def test_deaths_in_a_row_end_the_run_and_a_finished_group_starts_the_count_again(start):
    environment = start(1, least_deaths=2)
    for act in ("gone", "answer", "gone"):
        await play(environment, act)
    with pytest.raises(
        WorkersFailedError, match=r"2 worker processes died one after the other.*exit code 7"
    ) as last:
        await play(environment, "gone")
        await play(environment, "answer")
    assert "environment.workers = 0" in str(last.value.hint)
    assert environment.list_pids() == []


def test_more_workers_may_die_more_often():
    assert [WorkerLimits().most_deaths(workers) for workers in (1, 2, 4)] == [5, 7, 11]


async def test_a_process_that_dies_while_it_loads_is_an_error_at_once(tmp_path):
    from castform.plugins import load_environment

    path = tmp_path / "dies.py"
    path.write_text("import os, sys\nprint('on my way out', file=sys.stderr)\nos._exit(9)\n")
    with pytest.raises(
        WorkersFailedError, match=r"cannot be loaded: .* exit code 9; the last it printed: on my way out"
    ):
        load_environment(str(path), workers=2)
