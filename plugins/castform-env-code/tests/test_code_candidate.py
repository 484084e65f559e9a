"""What a candidate can and cannot do to the process that runs it, to its parent and to the machine."""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from castform_env_code.candidate import (
    CandidateRun,
    Layers,
    Limits,
    Raised,
    Returned,
    can_confine,
    run_candidate,
)

from benchmax.envs import RolloutFailure

SECCOMP = Layers(audit=False)
AUDIT = Layers(seccomp=False, required=False)
confined = pytest.mark.skipif(not can_confine(), reason="no seccomp filter for this machine")
A_SECOND: dict[str, Any] = {"cpu_seconds": 1, "wall_seconds": 200.0}
"""Of processor time, and on a busy machine as long as it takes."""
either_layer = pytest.mark.parametrize(
    "layers", [pytest.param(SECCOMP, marks=confined), AUDIT], ids=["seccomp", "audit"]
)


def run(source: str, calls=((),), *, layers: Layers | None = None, **limits) -> CandidateRun:
    layers = layers or Layers(required=can_confine())
    return asyncio.run(run_candidate(source, "f", calls, limits=Limits(**limits), layers=layers))


def value(source: str, *arguments):
    (outcome,) = run(source, [arguments]).outcomes
    return outcome


def test_a_function_is_called_with_each_list_of_arguments() -> None:
    made = run("def f(a, b):\n    return [a, (b,)]", [(1, "x"), (None, {"k": [2.5]}), ({1, 2}, (True,))])
    assert made.ending == "finished" and made.defined and made.error is None
    assert made.outcomes == (
        Returned(value={"list": [1, {"tuple": ["x"]}]}),
        Returned(value={"list": [None, {"tuple": [{"dict": [["k", {"list": [{"float": "2.5"}]}]]}]}]}),
        Returned(value={"list": [{"set": [1, 2]}, {"tuple": [{"tuple": [True]}]}]}),
    )
    assert made.confined == can_confine()


def test_a_call_that_raises_costs_only_itself() -> None:
    made = run("import sys\ndef f(n):\n    return sys.exit() if n == 2 else 6 // n", [(0,), (2,), (3,)])
    assert made.outcomes == (
        Raised(error="ZeroDivisionError: integer division or modulo by zero"),
        Raised(error="SystemExit: "),
        Returned(value=2),
    )


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("def g(): return 1", "KeyError: 'f'"),
        ("f = 3", "TypeError: f is no function"),
        ("def f(: pass", "SyntaxError"),
        ("import numpy\ndef f(): pass", "ModuleNotFoundError"),
        ("import castform_env_code\ndef f(): pass", "ModuleNotFoundError"),
        ("raise SystemExit(0)", "SystemExit"),
        ("import os\nos._exit(0)", "ended with code 0"),
        ("def f(): return '\ud800'\n'\x00'", "Error"),
        ("x = " + "(" * 5000, ""),
        ("#" * 60_000, "too long"),
    ],
)
def test_source_without_the_function_defines_nothing(source: str, told: str) -> None:
    made = run(source)
    assert not made.defined and made.outcomes == ()
    assert told in (made.error or "")


@pytest.mark.parametrize(
    ("result", "told"),
    [
        ("type('Same', (), {'__eq__': lambda self, other: True, '__hash__': lambda self: 1})()", "a Same"),
        ("type('Number', (int,), {'__eq__': lambda self, other: True})(1)", "a Number"),
        ("b'1'", "a bytes"),
        ("(n for n in [1])", "a generator"),
        ("10 ** 9000", "digits"),
        ("[x := [], x.append(x)] and x", "too deep"),
        ("1j", "a complex"),
    ],
)
def test_only_plain_values_come_back(result: str, told: str) -> None:
    outcome = value(f"def f(): return {result}")
    assert isinstance(outcome, Raised) and told in outcome.error


def test_overriding_what_the_process_uses_changes_nothing_but_its_own_values() -> None:
    source = """
import json, sys, builtins
main = sys.modules["__main__"]
main.encode = lambda value: 7
main.json.dumps = lambda *a, **k: '{"value": 7}'
builtins.type = builtins.isinstance = builtins.sorted = lambda *a: True
def f(): return 8
"""
    made = run(source)
    assert made.outcomes in ((), (Returned(value=7),))  # its own choice, and no better than returning 7


def test_the_process_knows_inputs_and_no_expected_values() -> None:
    source = """
import gc, sys
def f(n):
    seen = [repr(o) for o in gc.get_objects() if isinstance(o, dict) and "calls" in o and "source" in o]
    return seen[0]
"""
    outcome = value(source, 41)
    assert isinstance(outcome, Returned)
    request = outcome.value
    assert "'calls': [[41]]" in request
    assert set(eval(request)) == {"source", "function", "calls", "limits", "seccomp", "audit", "required"}


@either_layer
@pytest.mark.parametrize(
    "act",
    [
        "open('/etc/passwd').read()",
        "open('made-here', 'w').write('x')",
        f"open({str(Path(__file__))!r}).read()",
        "os.listdir('/')",
        "os.fork()",
        "if os.system('true'): raise OSError",
        "os.execv('/bin/true', ['true'])",
        "os.posix_spawn('/bin/true', ['true'], {})",
        "os.kill(os.getppid(), 9)",
        "os.mkdir(MADE)",
        "os.unlink('/tmp/none')",
        "os.chmod('/tmp', 0o1777)",
        "__import__('_socket').socket()",
        "__import__('subprocess').run(['true'])",
    ],
)
def test_files_processes_threads_signals_and_sockets_are_refused(
    act: str, layers: Layers, tmp_path: Path
) -> None:
    made = tmp_path / "made-by-a-candidate"
    source = f"import os\nMADE = {str(made)!r}\ndef f():\n    try:\n        {act}\n    except (OSError, RuntimeError, ImportError) as e:\n        return 'refused'\n    return 'done'"
    (outcome,) = run(source, layers=layers).outcomes
    assert outcome == Returned(value="refused")
    assert not made.exists()


@confined
def test_threads_sleep_and_higher_limits_are_refused_by_the_kernel() -> None:
    source = """
import os, sys, time
resource = sys.modules["resource"]
def f(what):
    try:
        if what == "sleep":
            time.sleep(60)
        elif what == "thread":
            __import__("_thread").start_new_thread(print, ())
        elif what == "pipes":  # fcntl, which could have signals sent
            os.set_blocking(1, False)
        else:
            resource.setrlimit(resource.RLIMIT_CPU, (100, 100))
    except (OSError, ValueError, RuntimeError):
        return "refused"
"""
    made = run(source, [("sleep",), ("thread",), ("pipes",), ("limits",)], layers=SECCOMP)
    assert made.outcomes == (Returned(value="refused"),) * 4


def test_a_fork_bomb_makes_no_process() -> None:
    source = "import os\ndef f():\n    count = 0\n    while count < 1000:\n        try:\n            os.fork()\n        except OSError:\n            count += 1\n    return count"
    assert run(source).outcomes == (Returned(value=1000),)


def test_an_infinite_loop_runs_out_of_processor_time() -> None:
    made = run("def f(n):\n    while n: pass\n    return n", [(0,), (1,), (0,)], **A_SECOND)
    assert made.ending == "died" and made.defined
    assert made.outcomes == (Returned(value=0),)
    assert made.error == "it ran out of processor time"


def test_catching_everything_does_not_outlive_the_limit() -> None:
    source = """
import _signal
_signal.signal(_signal.SIGXCPU, _signal.SIG_IGN)
def f():
    while True:
        try:
            while True: pass
        except BaseException: pass
"""
    made = run(source, **A_SECOND)
    assert made.ending == "died" and made.outcomes == ()


def test_waiting_for_ever_ends_with_the_time() -> None:
    source = (
        "import _thread\ndef f():\n    lock = _thread.allocate_lock()\n    lock.acquire()\n    lock.acquire()"
    )
    made = run(source, wall_seconds=2.0)
    assert made.ending == "timeout" and made.error == "it did not end in time"


@confined
def test_code_that_did_not_get_its_processor_time_is_not_judged() -> None:
    with pytest.raises(RolloutFailure, match="the machine is too busy") as caught:
        run("def f():\n    while True: pass", cpu_seconds=60, wall_seconds=1.5)
    assert caught.value.termination_reason == "verifier_timeout"


def test_ten_gigabytes_are_not_to_be_had() -> None:
    made = run("def f(n):\n    return len(bytearray(n))", [(10 << 30,), (10,)])
    assert made.outcomes == (Raised(error="MemoryError: "), Returned(value=10))


def test_what_is_printed_goes_nowhere() -> None:
    made = run("def f():\n    print('passed ' * 100_000)\n    return 1")
    assert made.outcomes == (Returned(value=1),)


def test_results_without_end_are_cut_off() -> None:
    source = "import os\ndef f():\n    while True:\n        for fd in range(3, 16):\n            try: os.write(fd, b'{\"value\": 1}\\n' * 5000)\n            except OSError: pass"
    made = run(source, output_bytes=100_000)
    assert made.ending == "flood" and len(made.outcomes) == 1
    made = run("def f():\n    return 'x' * 2_000_000")
    assert made.ending == "flood" and made.outcomes == ()


def test_leaving_early_earns_what_was_returned_before() -> None:
    made = run("import os\ndef f(n):\n    if n: os._exit(0)\n    return n", [(0,), (1,), (0,)])
    assert made.ending == "died" and made.outcomes == (Returned(value=0),)


def test_a_recursion_without_end_costs_its_own_process() -> None:
    source = "import sys\nsys.setrecursionlimit(10**9)\ndef f(): return f()"
    made = run(source, **A_SECOND)
    assert made.ending in ("died", "finished")
    assert not any(isinstance(outcome, Returned) for outcome in made.outcomes)


async def test_the_event_loop_goes_on_and_the_processes_are_bounded_by_cores() -> None:
    cores = os.cpu_count() or 1
    layers = Layers(required=can_confine())
    endless, limits = "def f():\n    while True: pass", Limits(cpu_seconds=100, wall_seconds=200.0)
    running = [
        asyncio.create_task(run_candidate(endless, "f", [()], limits=limits, layers=layers))
        for _ in range(cores + 2)
    ]
    async with asyncio.timeout(120):
        while _children() < cores:  # noqa: ASYNC110 - only the kernel knows
            await asyncio.sleep(0.002)
    for _ in range(20):  # a loop that waits for a process would not get here
        await asyncio.sleep(0.002)
        assert _children() == cores
    for work in running:
        work.cancel()
    ended = await asyncio.gather(*running, return_exceptions=True)
    assert [type(end) for end in ended] == [asyncio.CancelledError] * (cores + 2)
    made = await run_candidate("def f(): return 1", "f", [()], layers=layers)  # the cores are free again
    assert made.outcomes == (Returned(value=1),)


def _children() -> int:
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
    if not children.exists():
        return 0
    return sum(b"candidate_child" in _command(pid) for pid in children.read_text().split())


def _command(pid: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


async def test_cancelling_ends_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # where no other test makes folders
    work = asyncio.create_task(
        run_candidate(
            "def f():\n    while True: pass",
            "f",
            [()],
            limits=Limits(cpu_seconds=30),
            layers=Layers(required=can_confine()),
        )
    )
    async with asyncio.timeout(30):
        while not _inside(tmp_path):  # noqa: ASYNC110 - its folder tells that it has begun
            await asyncio.sleep(0)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert _children() == 0
    assert not _inside(tmp_path)


def _inside(folder: Path) -> list[Path]:
    return list(folder.iterdir())


@confined
def test_where_the_kernel_does_not_confine_nothing_is_run_unless_that_is_allowed() -> None:
    with pytest.raises(RolloutFailure, match="no code was run: the kernel does not confine it") as caught:
        run("def f(): return 1", layers=Layers(seccomp=False))
    assert caught.value.termination_reason == "sandbox_error"
    made = run("def f(): return 1", layers=AUDIT)
    assert made.outcomes == (Returned(value=1),) and not made.confined


def test_sets_come_out_the_same_every_time() -> None:
    source = "def f():\n    return list({'apple', 'river', 'stone', 'cloud', 'tree'})"
    assert run(source).outcomes == run(source).outcomes
