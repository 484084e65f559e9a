"""One provider and one box for all tests of a way to see into boxes."""

from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from castform.sandbox import load_provider
from castform.sandbox.contract import BoxRequest, Limits, Sandbox, SandboxProvider
from castform.sandbox.owner import PREFIX, current_owner

BUSYBOX = "castform/busybox:local"
WAYS = {"outside": {}, "inside": {"outside_view": False}}
"""How the provider sees into boxes: as root beside the engine, or through the engine alone."""
SMALL = Limits(cpus=1.0, memory_mb=256, pids=64, disk_mb=64)


def list_own(kind: str = "container") -> list[str]:
    """Return what this process made and the engine still has."""
    words = [
        "docker",
        kind,
        "ls",
        "--quiet",
        "--no-trunc",
        "--filter",
        f"label={PREFIX}pid={current_owner().pid}",
    ]
    if kind == "container":
        words.append("--all")
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.split()


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=list(WAYS))
async def provider(nothing_is_left: None, request: pytest.FixtureRequest) -> AsyncIterator[SandboxProvider]:
    made = load_provider("docker", **WAYS[request.param])
    yield made
    await made.aclose()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plain(nothing_is_left: None) -> AsyncIterator[SandboxProvider]:
    """For what is the same in every way to see into boxes."""
    made = load_provider("docker")
    yield made
    await made.aclose()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def box(provider: SandboxProvider) -> AsyncIterator[Sandbox]:
    started = await provider.start(
        BoxRequest(env={"FROM_BOX": "yes"}, workdir="/work", limits=SMALL, labels={"for": "tests"})
    )
    yield started
    await started.close()


@pytest.fixture(scope="module")
def nothing_is_left() -> Iterator[None]:
    """Look, after everything of a test file is closed, that nothing of it is there."""
    yield
    assert list_own() == []
    assert list_own("network") == []
