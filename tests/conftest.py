"""What every test shares: tests that need torch are left out where it is not installed.

A test run that was started in the background inherits an ignored SIGINT, and so would the
processes that it starts; tests about Ctrl-C need it to mean what it means in a terminal.
"""

from __future__ import annotations

import importlib.util
import signal
from pathlib import Path

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
    "gpu",
]

collect_ignore = [] if importlib.util.find_spec("torch") else [str(HERE / folder) for folder in NEEDS_TORCH]
