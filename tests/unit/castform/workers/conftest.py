"""Worker environments for these tests, closed after them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from castform.plugins import load_environment
from castform.workers.limits import WorkerLimits

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))


@pytest.fixture
async def start(tmp_path):
    """Return a function that starts the acting environment in workers."""
    started = []

    def begin(workers, *, args=None, **limits):
        loaded = load_environment(
            str(HERE / "acting.py"),
            {"folder": str(tmp_path), **(args or {})},
            workers=workers,
            limits=WorkerLimits(**limits),
        )
        started.append(loaded.environment)
        return loaded.environment

    yield begin
    for environment in started:
        await environment.aclose()
