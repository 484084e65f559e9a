"""Compare LaTeX expressions by value, in a process of its own: `python expression_worker.py`.

The algebra may take for ever or all memory on hostile input, and a time limit inside a
process works in its main thread only. So the process that scores never does algebra: it
asks this one, which gives up after two seconds of processor time and has little memory, and
which can be killed. Processor time, so that a verdict does not depend on how busy the
machine is. Requests are lines of JSON `[gold, answer]`, replies `true` or `false`.

Run as a file: it imports nothing of ours.
"""

from __future__ import annotations

import json
import logging
import re
import resource
import signal
import sys
from typing import Any, NoReturn

CPU_SECONDS = 2.0
"""After this the comparison is given up, which takes effect between two steps of Python."""
KILL_SECONDS = 4.0
"""After this the process ends, even in the middle of a huge power."""
MEMORY_BYTES = 2 * 1024**3
_DECIMAL = re.compile(r"(?<![\d.])(\d*)\.(\d+)(?![\d.])")


class _OutOfTimeError(BaseException):
    """Not an Exception: the libraries below would take it for a failed comparison and try the next."""


def equal_expressions(gold: str, answer: str) -> bool:
    """Whether two LaTeX expressions, equations, sets or intervals are equal.

    Two expressions are when their difference is proven to be zero; decimals are read as
    the exact fractions that they are. What cannot be read is equal to nothing.
    """
    from sympy import Expr

    one, other = _read(gold), _read(answer)
    if one is None or other is None:
        return False
    if isinstance(one, Expr) and isinstance(other, Expr):
        return bool(one.equals(other) is True)
    from math_verify import verify

    return bool(verify(one, other, float_rounding=15, timeout_seconds=None))


# Any: sympy and math-verify have no types.
def _read(latex: str) -> Any:
    """Return the sympy object of a LaTeX text, None when it is not one expression."""
    from math_verify import LatexExtractionConfig, parse

    exact = _DECIMAL.sub(lambda m: f"{{\\frac{{{m[1]}{m[2]}}}{{1{'0' * len(m[2])}}}}}", latex)
    found = parse(
        f"${exact.replace('**', '^')}$",
        extraction_config=(LatexExtractionConfig(),),
        fallback_mode="no_fallback",
        parsing_timeout=None,
    )
    return found[0] if found else None


def _give_up(signum: int, frame: object) -> NoReturn:
    raise _OutOfTimeError


def answer_request(line: str) -> bool:
    """Return the verdict on one request; False when it takes too long or cannot be decided.

    Main thread only: the limit is a signal.
    """
    signal.signal(signal.SIGPROF, _give_up)
    try:
        gold, answer = json.loads(line)
        signal.setitimer(signal.ITIMER_VIRTUAL, KILL_SECONDS)
        signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
        try:
            return bool(equal_expressions(gold, answer))
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    except _OutOfTimeError:
        return False
    except Exception:  # noqa: BLE001 - the parser and the algebra raise whatever they like on odd input
        return False


def main() -> None:
    """Answer requests until the input ends."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that asks
    logging.disable()
    equal_expressions("x+1", "1+x")  # warms up outside the time limit
    for line in sys.stdin:
        sys.stdout.write(json.dumps(answer_request(line)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
