"""A provider whose boxes lie in the test's own folder."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from castform.sandbox.contract import BoxRequest, Sandbox
from castform.sandbox.process.provider import ProcessProvider


@pytest.fixture
async def provider(tmp_path: Path) -> AsyncIterator[ProcessProvider]:
    made = ProcessProvider(root=str(tmp_path / "boxes"))
    yield made
    await made.aclose()


@pytest.fixture
async def box(provider: ProcessProvider) -> Sandbox:
    return await provider.start(BoxRequest())
