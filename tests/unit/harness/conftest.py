"""A box without isolation, and harnesses made of TOML text."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from castform.harness import AgentTask, Harness, load_harness
from castform.sandbox.contract import BoxRequest, Limits, ModelEndpoint, NetworkPolicy, Sandbox
from castform.sandbox.load import load_provider


@pytest.fixture
def endpoint() -> ModelEndpoint:
    """A model that nobody serves."""
    return ModelEndpoint(base_url="http://127.0.0.1:9/v1", api_key="sk-real-key", model="tiny")


@pytest.fixture
async def box(tmp_path: Path) -> AsyncIterator[Sandbox]:
    provider = load_provider("process", root=str(tmp_path / "boxes"))
    request = BoxRequest(
        limits=Limits(cpus=None, memory_mb=None, pids=None, disk_mb=None),
        network=NetworkPolicy(mode="public"),
    )
    sandbox = await provider.start(request)
    yield sandbox
    await sandbox.close()
    await provider.aclose()


@pytest.fixture
def make_harness(tmp_path: Path) -> Callable[..., Harness]:
    def make(toml: str, **options: object) -> Harness:
        path = tmp_path / "my-agent.toml"
        path.write_text(toml, encoding="utf-8")
        return load_harness(path, **options)

    return make


@pytest.fixture
def make_task(tmp_path: Path) -> Callable[..., AgentTask]:
    """Make a task that works and logs in folders of the test."""
    workdir = tmp_path / "work dir"
    workdir.mkdir()

    def make(instruction: str = "do it", **more: object) -> AgentTask:
        return AgentTask(
            instruction=instruction, workdir=str(workdir), log_dir=str(tmp_path / "logs"), **more
        )

    return make
