"""What a process shares between everything that runs in it, and what came to be changed of it."""

from __future__ import annotations

import decimal
import locale
import logging
import os
import random
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

OWN_VARIABLES = frozenset({"PYTEST_CURRENT_TEST"})
"""Set by whoever runs the tests."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessState:
    """The shared state by name, in forms that can be compared, and how to put each back."""

    values: Mapping[str, Any]  # Any: each its own form

    def changes(self, before: ProcessState) -> list[str]:
        """Return what differs from before, in words."""
        return [
            _describe(name, before.values[name], value)
            for name, value in self.values.items()
            if value != before.values[name]
        ]

    def restore(self) -> None:
        """Put back what can be put back, so that what runs later does not run in it."""
        for name, put_back in _RESTORES.items():
            put_back(self.values[name])


def take_state(*, with_random: bool = False) -> ProcessState:
    """Return the state as it is now; with the position of the shared random generators on request."""
    context = decimal.getcontext()
    values: dict[str, Any] = {
        "os.environ": {name: value for name, value in os.environ.items() if name not in OWN_VARIABLES},
        "the working directory": os.getcwd(),  # noqa: PTH109 - as the process has it
        "the decimal context": (
            context.prec,
            context.rounding,
            tuple(sorted(flag.__name__ for flag, on in context.traps.items() if on)),
        ),
        "signal handlers": {number: signal.getsignal(number) for number in signal.valid_signals()},
        "the locale": locale.setlocale(locale.LC_ALL),
        "the recursion limit": sys.getrecursionlimit(),
        "the default timeout of sockets": socket.getdefaulttimeout(),
        "handlers of the root logger": [type(handler).__name__ for handler in logging.getLogger().handlers],
    }
    if with_random:
        values["random"] = random.getstate()
        numbers = sys.modules.get("numpy.random")
        if numbers is not None:
            values["numpy.random"] = [
                part.tobytes() if hasattr(part, "tobytes") else part for part in numbers.get_state()
            ]
    return ProcessState(values=values)


def _describe(name: str, before: Any, after: Any) -> str:
    if isinstance(before, dict) and isinstance(after, dict):
        names = sorted(str(k) for k in {*before, *after} if before.get(k) != after.get(k))
        return f"{name} ({', '.join(names[:3])}{', …' if len(names) > 3 else ''})"
    if name in ("random", "numpy.random"):
        return f"the global {name}"
    return f"{name} ({before} before, {after} after)"


def _restore_environ(values: Mapping[str, str]) -> None:
    for name in set(os.environ) - set(values) - OWN_VARIABLES:
        del os.environ[name]
    for name, value in values.items():
        if os.environ.get(name) != value:
            os.environ[name] = value


def _restore_decimal(values: tuple[int, str, tuple[str, ...]]) -> None:
    context = decimal.getcontext()
    context.prec, context.rounding, traps = values
    for flag in context.traps:
        context.traps[flag] = flag.__name__ in traps


def _restore_signals(values: Mapping[int, Any]) -> None:
    for number, handler in values.items():
        if signal.getsignal(number) != handler and handler is not None:
            signal.signal(number, handler)


_RESTORES: Mapping[str, Callable[[Any], object]] = {
    "os.environ": _restore_environ,
    "the working directory": os.chdir,
    "the decimal context": _restore_decimal,
    "signal handlers": _restore_signals,
    "the locale": lambda value: locale.setlocale(locale.LC_ALL, value),
    "the recursion limit": sys.setrecursionlimit,
    "the default timeout of sockets": socket.setdefaulttimeout,
}
