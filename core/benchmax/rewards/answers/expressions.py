"""Answers that are LaTeX or algebra, compared by value with math-verify in a process of its own.

Hostile answers are common in training: a power tower or a factorial must neither hang a
reward nor eat the machine. Length and size guards stop the usual ones before they cost
anything, and the worker process gives up on the others.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import re
import select
import subprocess
import sys
import threading
from pathlib import Path

from benchmax.rewards.answers.plain import canonical

MAX_CHARS = 400
MAX_DEPTH = 12
"""How deep brackets may nest."""
MAX_DIGITS = 40
"""Digits in a row of an expression."""
MAX_POWER_DIGITS = 3
WALL_SECONDS = 120.0
"""How long the worker is waited for. It gives up by itself after two seconds of processor time, but on a
busy machine starting it takes half a minute."""
_WORKER = Path(__file__).with_name("expression_worker.py")
_COMMAND = re.compile(r"\\([A-Za-z]+)")
_WORD = re.compile(r"[A-Za-z]{2,}")
_FUNCTION = re.compile(
    "sin|cos|tan|cot|sec|csc|arcsin|arccos|arctan|sinh|cosh|tanh|log|ln|exp|sqrt|pi|min|max|gcd|lcm|mod"
)
_SHORT_WORD = re.compile(
    "am|an|as|at|be|by|do|go|he|if|in|is|it|me|my|no|of|on|or|so|to|up|us|we", re.IGNORECASE
)
_PROSE_COMMANDS = frozenset(["text", "mathrm", "mathbf", "textbf", "mathit", "textit", "mbox", "emph"])
_STRUCTURE = re.compile(r"\\[A-Za-z]|[\^=<>!]|[^\s\d]\s*[-+*/(]|[-+*/)]\s*[^\s\d]|\d\s*[-+*/]\s*\d")
_ROOT = re.compile(r"√\s*(?:(\d+|[A-Za-z])|[({]([^(){}]*)[)}])")
_STACKED_FACTORIAL = re.compile(r"!\s*!|\)\s*!")
_LARGE_POWER = re.compile(rf"\^\s*[{{(]*\s*[-+]?\s*\d{{{MAX_POWER_DIGITS + 1}}}")
_LARGE_FACTORIAL = re.compile(rf"\d{{{MAX_POWER_DIGITS + 1}}}\)*\s*!")
_DIGITS = re.compile(rf"\d{{{MAX_DIGITS + 1}}}")


def is_expression(text: str) -> bool:
    """Whether a text is mathematics and no prose: operators or LaTeX commands, and no words."""
    return bool(_STRUCTURE.search(text[:MAX_CHARS])) and is_wordless(text)


def is_wordless(text: str) -> bool:
    """Whether a text may be mathematics: letters stand alone or name functions, and it is not long."""
    text = canonical(text)
    if len(text) > MAX_CHARS:
        return False
    commands = set(_COMMAND.findall(text))
    if commands and commands <= _PROSE_COMMANDS:
        return False
    words = _WORD.findall(_COMMAND.sub(" ", re.sub(r"\\(?:begin|end)\s*\{[a-z]*\}", " ", text)))
    return all(
        _FUNCTION.fullmatch(word) or (len(word) == 2 and not _SHORT_WORD.fullmatch(word)) for word in words
    )


def is_affordable(text: str) -> bool:
    """Whether algebra on the text is worth starting: bounded length, nesting, digits and powers."""
    if len(text) > MAX_CHARS or _DIGITS.search(text) or _STACKED_FACTORIAL.search(text):
        return False
    if _LARGE_POWER.search(text) or _LARGE_FACTORIAL.search(text):
        return False
    depth = deepest = 0
    for sign in text:
        depth += (sign in "{([") - (sign in "})]")
        deepest = max(deepest, depth)
    return deepest <= MAX_DEPTH and not _has_tower(text)


def _has_tower(text: str) -> bool:
    """Whether an exponent holds a power or a factorial, or a power is raised without brackets."""
    is_exponent: list[bool] = []  # of each open bracket
    starts_exponent = ends_exponent = False
    for sign in text.replace(" ", ""):
        if sign in "^!" and (ends_exponent or any(is_exponent)):
            return True
        closes_exponent = sign in "})]" and bool(is_exponent) and is_exponent.pop()
        ends_exponent = closes_exponent or (starts_exponent and sign not in "{([-+")
        if sign in "{([":
            is_exponent.append(starts_exponent)
        starts_exponent = sign == "^" or (starts_exponent and sign in "-+")
    return False


def equal_expressions(answer: str, gold: str) -> bool:
    """Whether two expressions are the same text or have the same value.

    Symbols keep their case: since the parser knows only one, texts that hold a letter in
    both cases are equal only when they are the same.
    Works in any thread and any process. False when either is too large to look at.
    """
    one, other = _compact(answer), _compact(gold)
    if one == other:
        return bool(one)
    if not (is_affordable(one) and is_affordable(other)) or _has_both_cases(one + other):
        return False
    return _shared_worker().ask(other, one)


def _has_both_cases(text: str) -> bool:
    letters = set(re.findall("[A-Za-z]", _COMMAND.sub("", text)))
    return any(letter.swapcase() in letters for letter in letters)


def _compact(text: str) -> str:
    """Return an expression without dollars, display marks, spacing commands and end punctuation."""
    text = re.sub(
        r"(?<!\\)\\[()\[\],;:! ]|\\(?:left|right|displaystyle|limits)(?![A-Za-z])|[$`]", "", canonical(text)
    )
    text = _ROOT.sub(r"\\sqrt{\1\2}", text).replace("∞", "\\infty ").replace("∪", "\\cup ")
    return " ".join(text.strip(" ,;").rstrip(" .,;").split())


class _Worker:
    """One process that compares, started at the first question, shared by all threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None

    def ask(self, gold: str, answer: str) -> bool:
        """Return the worker's verdict; False when it does not answer in time, or a second one dies of it too."""
        with self._lock:
            verdict = self._asked_once(gold, answer)
            if verdict == "":  # it may have been killed for something else
                verdict = self._asked_once(gold, answer)
            return verdict == "true"

    def _asked_once(self, gold: str, answer: str) -> str | None:
        """Return what the worker says, "" when it dies, None when it does not answer in time."""
        process = self._running()
        try:
            said = self._exchange(process, json.dumps([gold, answer]))
        except OSError:
            said = ""
        verdict = None if said is None else said.strip()
        if verdict not in ("true", "false"):
            self._stop()
        return verdict

    def close(self) -> None:
        """End the process, if this process started one."""
        with self._lock:
            self._stop()

    def reset_after_fork(self) -> None:
        """Forget the parent's worker and whoever held the lock in the parent."""
        self._lock = threading.Lock()
        self._process = None

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                [sys.executable, "-P", str(_WORKER)],  # -P: this folder's numbers.py is not the library's
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            )
        return self._process

    def _exchange(self, process: subprocess.Popen[str], request: str) -> str | None:
        assert process.stdin is not None and process.stdout is not None  # both are pipes
        process.stdin.write(request + "\n")
        process.stdin.flush()
        waiting = select.poll()  # not select(): it fails in a process with 1,024 open files
        waiting.register(process.stdout, select.POLLIN)
        return process.stdout.readline() if waiting.poll(WALL_SECONDS * 1000) else None

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


@functools.cache
def _shared_worker() -> _Worker:
    worker = _Worker()
    atexit.register(worker.close)
    os.register_at_fork(after_in_child=worker.reset_after_fork)
    return worker
