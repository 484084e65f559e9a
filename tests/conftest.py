"""What every test shares: tests that need torch are left out where it is not installed; time can be skipped.

A test run that was started in the background inherits an ignored SIGINT, and so would the
processes that it starts; tests about Ctrl-C need it to mean what it means in a terminal.
"""

from __future__ import annotations

import asyncio
import importlib.util
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

HERE = Path(__file__).parent
NEEDS_TORCH = [
    "contract/test_engine_contract.py",
    "unit/rl",
    "unit/engines",
    "unit/gateway",
    "unit/sft",
    "unit/sft",
    "integration",
    "agents",
    "gpu",
]

collect_ignore = [] if importlib.util.find_spec("torch") else [str(HERE / folder) for folder in NEEDS_TORCH]


@pytest.fixture
def skip_seconds(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Return a function that moves on the clock of the event loop which runs it.

    A time limit then passes when a test says so: it is never too short for what comes before it,
    however slow the machine, and nobody waits for it.
    """
    skipped: dict[asyncio.AbstractEventLoop, float] = {}

    def skip(seconds: float) -> None:
        loop = asyncio.get_running_loop()
        if loop not in skipped:
            told = loop.time
            monkeypatch.setattr(loop, "time", lambda: told() + skipped[loop])
        skipped[loop] = skipped.get(loop, 0.0) + seconds

    return skip
