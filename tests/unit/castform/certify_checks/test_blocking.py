"""Code that holds the event loop is named by its line, on a busy machine as well."""

from __future__ import annotations

import threading
from dataclasses import replace

from contexts import SUMS, load_context, make_context

from castform.certify.checks.blocking import check_blocking
from castform.certify.checks.watchdog import Place, watch_loop

REWARD = 'text = rollout.messages[-1]["content"] or ""'


def holding(line, head=""):
    return f"{head}\n" + SUMS.replace(REWARD, f"{line}\n        {REWARD}")


def line_of(folder, text):
    [file] = folder.iterdir()
    number = next(i for i, line in enumerate(file.read_text().splitlines(), 1) if text in line)
    return f"{file.name}:{number}"


async def test_a_reward_that_waits_is_named(tmp_path):
    context = await make_context(tmp_path, holding("time.sleep(0.25)", "import time"))
    [finding] = await check_blocking(context)
    assert (finding.level, finding.code, finding.check) == ("fault", "blocks_event_loop", "blocking")
    assert f"Sums.compute_reward ({line_of(tmp_path, 'time.sleep')}) holds the event loop" in finding.message
    assert "it waits; use an async client" in finding.message
    assert finding.example_id == "sum-10"


async def test_a_reward_that_computes_is_named_through_the_library_it_calls(tmp_path):
    head = """
import time, statistics
def think():
    end = time.thread_time() + 0.3
    while time.thread_time() < end:
        statistics.fmean([1.0, 2.0])
"""
    [finding] = await check_blocking(await make_context(tmp_path, holding("think()", head)))
    assert finding.message.startswith("think (")
    assert "it computes; move it to a process pool" in finding.message


async def test_code_that_keeps_the_interpreter_to_itself_is_seen_when_it_lets_go(tmp_path):
    head = "import re, time"
    line = (
        "end = time.thread_time() + 0.3\n        while time.thread_time() < end: re.match('(a+)+b', 'a' * 19)"
    )
    [finding] = await check_blocking(await make_context(tmp_path, holding(line, head)))
    assert finding.code == "blocks_event_loop"
    assert "Sums.compute_reward" in finding.message


async def test_a_sound_environment_and_one_that_uses_threads_pass(tmp_path):
    assert await check_blocking(await make_context(tmp_path)) == []
    threaded = holding("await asyncio.to_thread(time.sleep, 0.25)", "import asyncio, time")
    assert await check_blocking(await make_context(tmp_path, threaded)) == []
    awaited = holding("await asyncio.sleep(0.25)", "import asyncio")
    assert await check_blocking(await make_context(tmp_path, awaited)) == []


async def test_a_first_call_that_is_slow_is_forgiven(tmp_path):
    slow_once = holding("if not hasattr(self, 'ready'): time.sleep(0.3); self.ready = True", "import time")
    assert await check_blocking(await make_context(tmp_path, slow_once)) == []


async def test_a_busy_machine_is_no_fault(tmp_path):
    ended = threading.Event()

    def burn():
        while not ended.is_set():
            sum(range(1000))

    threads = [threading.Thread(target=burn) for _ in range(6)]
    for thread in threads:
        thread.start()
    try:
        assert await check_blocking(await make_context(tmp_path)) == []
    finally:
        ended.set()
        for thread in threads:
            thread.join()


async def test_a_dataset_that_takes_long_is_noted(tmp_path):
    source = "import time\n" + SUMS.replace(
        "start = 10 if", "time.sleep(2.1 if getattr(self, 'slow', False) else 0)\n        start = 10 if"
    )
    context = await make_context(tmp_path, source)
    context.environment.slow = True
    [finding] = await check_blocking(context)
    assert (finding.level, finding.code) == ("note", "dataset_blocks")
    assert line_of(tmp_path, "time.sleep") in finding.message


async def test_without_examples_that_is_said(tmp_path):
    context = await make_context(tmp_path)
    [finding] = await check_blocking(replace(context, examples={}))
    assert (finding.level, finding.code) == ("unchecked", "no_examples")


def wait():
    threading.Event().wait(0.2)


async def test_the_watch_tells_waiting_from_computing_and_keeps_only_what_is_to_blame():
    here = Place(function="here", file=__file__, line=1)
    with watch_loop(0.1, lambda frame: here) as watch:
        wait()
    [stall] = watch.stalls
    assert stall.place == here
    assert 0.1 <= stall.seconds
    assert stall.cpu_seconds < 0.1
    with watch_loop(0.1, lambda frame: None) as watch:
        wait()
    assert watch.stalls == []


async def test_an_environment_of_the_repository_passes(request):
    assert await check_blocking(await load_context(request.config.rootpath / "examples" / "reverse.py")) == []
