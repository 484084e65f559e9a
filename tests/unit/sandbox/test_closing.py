"""Boxes and starts of one provider in several event loops, and a provider that ends while boxes start."""

from __future__ import annotations

import asyncio
import os
import threading

import pytest

from castform.sandbox.closing import Starts
from castform.sandbox.contract import BoxRequest, ModelEndpoint, NetworkPolicy
from castform.sandbox.errors import SandboxGoneError, SandboxStartError
from castform.sandbox.process.provider import ProcessProvider

REQUEST = BoxRequest(network=NetworkPolicy(mode="public"))
ENDPOINT = ModelEndpoint(base_url="http://127.0.0.1:9/v1", api_key="real", model="m")


async def start_connected(provider):
    box = await provider.start(REQUEST)
    await box.connect(ENDPOINT)
    return box


def test_a_box_of_a_loop_that_has_ended_is_closed_by_the_next(tmp_path):
    provider = ProcessProvider(root=str(tmp_path / "boxes"))
    box = asyncio.run(start_connected(provider))
    asyncio.run(box.close())
    assert list((tmp_path / "boxes").iterdir()) == []
    asyncio.run(start_connected(provider))
    asyncio.run(provider.aclose())
    assert list((tmp_path / "boxes").iterdir()) == []


@pytest.mark.parametrize("ends", [True, False], ids=["a-loop-that-ends-then", "a-loop-that-goes-on"])
def test_a_provider_closes_what_runs_in_another_loop(ends, tmp_path):
    provider = ProcessProvider(root=str(tmp_path / "boxes"))
    started, closed, seen = threading.Event(), threading.Event(), []

    async def work() -> None:
        box = await start_connected(provider)
        started.set()
        [end] = await asyncio.gather(box.exec(["sleep", "600"]), return_exceptions=True)
        seen.append(end)
        if not ends:
            await asyncio.to_thread(closed.wait, 30)

    thread = threading.Thread(target=asyncio.run, args=(work(),))
    thread.start()
    assert started.wait(30)
    asyncio.run(provider.aclose())
    closed.set()
    thread.join(30)
    assert not thread.is_alive()
    assert list((tmp_path / "boxes").iterdir()) == []
    assert provider._slots.taken == 0
    assert isinstance(seen[0], SandboxGoneError)


async def test_a_provider_that_is_closed_ends_its_starts_and_starts_no_more(tmp_path):
    provider = ProcessProvider(root=str(tmp_path / "boxes"))
    starting = [asyncio.create_task(provider.start(REQUEST)) for _ in range(3)]
    await asyncio.sleep(0)
    await provider.aclose()
    for end in await asyncio.gather(*starting, return_exceptions=True):
        assert isinstance(end, SandboxStartError) and "the provider is closed" in str(end)
    assert list((tmp_path / "boxes").glob("*")) == list((tmp_path / "boxes").glob(".*")) == []
    with pytest.raises(SandboxStartError, match="the provider is closed"):
        await provider.start(REQUEST)


def test_a_start_in_another_loop_is_ended_and_waited_for():
    starts, begun, seen = Starts(), threading.Event(), []

    async def start() -> None:
        try:
            async with asyncio.timeout(60) as limit:
                with starts.noted(limit):
                    begun.set()
                    await asyncio.Event().wait()
        except TimeoutError:
            seen.append("ended")

    thread = threading.Thread(target=asyncio.run, args=(start(),))
    thread.start()
    assert begun.wait(30)
    asyncio.run(starts.end(seconds=30))
    thread.join(30)
    assert seen == ["ended"]


async def test_cancelled_at_any_moment_a_box_leaves_no_descriptor_and_no_folder(provider, tmp_path):
    async def use() -> None:
        box = await provider.start(REQUEST)
        try:
            await box.connect(ENDPOINT)
            await box.exec(["true"])
        finally:
            await box.close()

    await use()
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names are all it takes
    for turns in range(40):
        task = asyncio.create_task(use())
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208 - as above
    assert list((tmp_path / "boxes").glob("*")) == list((tmp_path / "boxes").glob(".*")) == []
    assert provider._slots.taken == 0
    assert len(asyncio.all_tasks()) == 1
