"""What every test shares: tests that need torch are left out where it is not installed."""

from __future__ import annotations

import importlib.util
from pathlib import Path

HERE = Path(__file__).parent
NEEDS_TORCH = [
    "contract/test_engine_contract.py",
    "unit/rl",
    "unit/engines",
    "unit/gateway",
    "integration",
    "gpu",
]

collect_ignore = [] if importlib.util.find_spec("torch") else [str(HERE / folder) for folder in NEEDS_TORCH]
