"""Algebra: what is equal, what is refused before it costs anything, and a worker that nothing can hang."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from benchmax.rewards import match_answer
from benchmax.rewards.answers import expression_worker, expressions
from benchmax.rewards.answers.expressions import (
    MAX_CHARS,
    MAX_DEPTH,
    MAX_DIGITS,
    equal_expressions,
    is_affordable,
    is_expression,
    is_wordless,
)


@pytest.mark.parametrize(
    "text",
    ["x+1", "x = 2", "2^3", "\\sqrt{2}", "\\pi", "5!", "3 - 4", "sin(x)", "x < 3", "\\begin{pmatrix}1&2\\end{pmatrix}", "f(x)", "3/4", "ab+c"],
)  # fmt: skip
def test_mathematics_is_told_from_prose(text: str) -> None:
    assert is_expression(text) and is_wordless(text)


@pytest.mark.parametrize(
    "text", ["so I get -1", "well-known", "\\text{Paris}", "it=5", "\\text{a}\\textbf{b}", "abc+1", "x" * (MAX_CHARS + 1) + "+1"]
)  # fmt: skip
def test_prose_is_no_mathematics(text: str) -> None:
    assert not is_expression(text)


def test_without_operators_there_is_nothing_to_compute() -> None:
    assert is_wordless("5x") and not is_expression("5x")


@pytest.mark.parametrize(
    ("within", "beyond"),
    [
        ("1" * MAX_DIGITS, "1" * (MAX_DIGITS + 1)),
        ("x" * MAX_CHARS, "x" * (MAX_CHARS + 1)),
        ("(" * MAX_DEPTH + ")" * MAX_DEPTH, "(" * (MAX_DEPTH + 1) + ")" * (MAX_DEPTH + 1)),
        ("x^{999}", "x^{1000}"),
        ("x^-999", "x^ { - 1000 }"),
        ("999!", "1000!"),
        ("5! + 5!", "5!!"),
        ("x^2 + y^2", "2^3^2"),
        ("{(9^9)}^9", "9^{9^9}"),
        ("x^{2} y^2", "x^{2}^2"),
        ("x^{2} + 5!", "x^{5!}"),
        ("\\sin^2 x + \\cos^2 x", "2^{-(1+9^9)}"),
        ("(x+1)^{2} + 3!", "2^-3^2"),
    ],
)
def test_size_is_bounded_before_any_algebra(within: str, beyond: str) -> None:
    assert is_affordable(within)
    assert not is_affordable(beyond)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x^2+1", "1 + x^2"),
        ("(x+1)(x-1)", "x^2-1"),
        ("\\frac{\\sqrt{8}}{2}", "\\sqrt{2}"),
        ("0.25x", "\\frac{x}{4}"),
        (".5x", "\\frac{x}{2}"),
        ("2**3", "8"),
        ("$\\pi r^2$.", "\\pi r^{2}"),
        ("\\{1, 2\\}", "\\{2, 1\\}"),
        ("2x - y = -1", "y = 2x+1"),
        ("\\log_2 8", "3"),
        ("\\binom{5}{2}", "10"),
        ("same text, whatever", "same text, whatever"),
    ],
)
def test_equal_values_are_equal_both_ways(one: str, other: str) -> None:
    assert equal_expressions(one, other) is True
    assert equal_expressions(other, one) is True


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x+1", "x+2"),
        ("x+1", "X+1"),
        ("\\sqrt{2}", "1.41421356237309504880"),
        ("\\frac{x}{3}", "0.33333333333333333333x"),
        ("10^{20}\\sqrt{2}", "10^{20}\\sqrt{2}+1"),
        ("\\frac{\\pi}{10^{30}}", "\\frac{2\\pi}{10^{30}}"),
        ("\\{1, 2\\}", "\\{1, 3\\}"),
        ("y = 2x", "y = 3x"),
        ("", ""),
        ("$$", " . "),
        ("\\frac{", "\\frac{1}{"),
        ("x+", "+x"),
    ],
)
def test_different_values_are_not_equal_in_any_order(one: str, other: str) -> None:
    assert equal_expressions(one, other) is False
    assert equal_expressions(other, one) is False


HOSTILE = [
    "9^{9^{9^{9}}}",
    "1000000000!",
    "10^{1000000000}",
    "((9^{999})^{999})^{999}",
    "\\left(999!\\right)^{999}",
    "\\binom{999999999}{500000000}",
    "(a+b+c+d+x+f+g+h)^{999}",
    "\\int_0^1 \\sin(x^x)\\cos(x) dx",
    "\\sin" * 60 + " x",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_answers_are_not_paid_and_the_next_answer_is(text: str) -> None:
    assert match_answer(f"\\boxed{{{text}}}", "5") == 0.0
    assert match_answer(f"\\boxed{{{text}}}", "x^2+1") == 0.0
    assert match_answer("\\boxed{1+x^2}", "x^2+1") == 1.0


def test_answers_are_compared_in_any_thread() -> None:
    texts = [f"\\boxed{{{number}+x^2}}" for number in range(12)]
    with ThreadPoolExecutor(4) as threads:
        verdicts = list(threads.map(lambda text: match_answer(text, "x^2+7"), texts))
    assert verdicts == [float(number == 7) for number in range(12)]


def test_a_worker_that_was_killed_is_replaced() -> None:
    worker = expressions._Worker()
    assert worker.ask("x+1", "1+x") is True
    process = worker._running()
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert worker.ask("x+1", "1+x") is True
    assert worker._running() is not process
    worker.close()
    worker.close()


def test_a_worker_that_dies_while_it_is_asked_is_asked_once_more(tmp_path: Path, monkeypatch) -> None:
    script = tmp_path / "worker.py"
    script.write_text(
        "import sys, pathlib\n"
        f"log = pathlib.Path({str(tmp_path / 'asked')!r})\n"
        "line = sys.stdin.readline()\n"
        "log.write_text((log.read_text() if log.exists() else '') + 'x')\n"
        "print('true') if len(log.read_text()) % 4 == 0 else sys.exit(3)\n"
    )
    monkeypatch.setattr(expressions, "_WORKER", script)
    worker = expressions._Worker()
    assert worker.ask("a", "b") is False  # two of them died
    assert (tmp_path / "asked").read_text() == "xx"
    assert worker.ask("a", "b") is True  # the second one answered
    assert (tmp_path / "asked").read_text() == "xxxx"
    worker.close()


def test_a_worker_that_does_not_answer_in_time_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = expressions._Worker()
    process = worker._running()
    process.send_signal(signal.SIGSTOP)
    monkeypatch.setattr(expressions, "WALL_SECONDS", 0.05)
    assert worker.ask("x+1", "1+x") is False
    assert process.returncode == -signal.SIGKILL
    worker.close()


def _compare(results: multiprocessing.Queue[float]) -> None:
    results.put(match_answer("\\boxed{1+x^2}", "x^2+1"))


def test_a_forked_process_gets_a_worker_of_its_own() -> None:
    assert match_answer("\\boxed{1+x^2}", "x^2+1") == 1.0
    lock = expressions._shared_worker()._lock
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    with lock:  # another thread is asking while the process forks
        child = context.Process(target=_compare, args=(results,))
        child.start()
        assert results.get(timeout=120) == 1.0
    child.join(60)
    assert child.exitcode == 0
    assert match_answer("\\boxed{2+x^2}", "x^2+2") == 1.0


def test_the_worker_reads_lines_and_ends_with_its_input() -> None:
    done = subprocess.run(
        [sys.executable, "-P", str(Path(expression_worker.__file__))],
        input='["x+1", "1+x"]\n["x+1", "x"]\nnot json\n["x+2", "2+x"]\n',
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stdout) == (0, "true\nfalse\nfalse\ntrue\n")


def test_a_request_is_answered_within_its_processor_time(monkeypatch: pytest.MonkeyPatch) -> None:
    assert threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGPROF)
    monkeypatch.setattr(expression_worker, "KILL_SECONDS", 120)  # it would be this process that is killed
    assert expression_worker.equal_expressions(
        "x+1", "1+x"
    )  # the algebra is imported outside the limit, as in `main`
    try:
        assert expression_worker.answer_request('["x+1", "1+x"]') is True
        assert expression_worker.answer_request('["x+1", "x-1"]') is False
        assert expression_worker.answer_request('["\\\\frac{", "x"]') is False
        monkeypatch.setattr(expression_worker, "CPU_SECONDS", 0.05)
        assert expression_worker.answer_request('["(a+b+c+d+x+f+g+h)^{99}", "x"]') is False
        assert signal.getitimer(signal.ITIMER_PROF) == signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)
    finally:
        signal.signal(signal.SIGPROF, before)


def test_importing_the_rewards_starts_no_process_and_loads_no_algebra() -> None:
    code = "import sys, benchmax.rewards as r; assert r.match_answer('5', '5') == 1; print('sympy' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, env={**os.environ}
    )
    assert done.stdout == "False\n"
