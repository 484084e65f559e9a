"""Boxes that are started before they are asked for."""

from __future__ import annotations

import asyncio
import shutil

import pytest

from castform.sandbox import load_provider
from castform.sandbox import pool as pool_module
from castform.sandbox.contract import BoxRequest, NetworkPolicy
from castform.sandbox.errors import SandboxStartError, UsageError
from castform.sandbox.pool import WarmPool

REQUEST = BoxRequest(network=NetworkPolicy(mode="public"))


def list_boxes(tmp_path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "boxes").glob("*"))


async def test_a_box_is_handed_out_once_and_another_takes_its_place(provider, tmp_path):
    async with WarmPool(provider, REQUEST, size=2) as pool:
        await pool.wait_warm()
        taken = []
        for _ in range(5):
            taken.append(await pool.take())
            await pool.wait_warm()
            assert pool.ready == 2
        assert len({box.id for box in taken}) == 5
        assert (await taken[0].exec(["echo", "here"])).text == "here\n"
        await asyncio.gather(*(box.close() for box in taken))
    assert list_boxes(tmp_path) == []


async def test_a_warm_box_is_there_at_once(provider, monkeypatch):
    async with WarmPool(provider, REQUEST, size=1) as pool:
        await pool.wait_warm()
        warm = pool._ready[0][0]
        assert await pool.take() is warm


async def test_a_box_that_died_while_it_waited_is_not_handed_out(provider, tmp_path, monkeypatch):
    monkeypatch.setattr(pool_module, "CHECK_AFTER_SECONDS", 0.0)
    async with WarmPool(provider, REQUEST, size=1) as pool:
        await pool.wait_warm()
        (dead,) = list_boxes(tmp_path)
        shutil.rmtree(tmp_path / "boxes" / dead)
        box = await pool.take()
        assert box.id != dead
        assert (await box.exec(["true"])).exit_code == 0


async def test_closing_ends_boxes_that_start_and_is_not_stopped_by_cancellation(provider, tmp_path):
    pool = WarmPool(provider, REQUEST, size=4)
    pool.warm()
    await asyncio.sleep(0)  # they have begun
    closing = asyncio.create_task(pool.aclose())
    for _ in range(4):
        await asyncio.sleep(0)
        closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    await pool.aclose()
    assert list_boxes(tmp_path) == []
    with pytest.raises(UsageError, match="closed"):
        await pool.take()


async def test_who_takes_from_a_pool_that_cannot_start_gets_the_reason(provider, tmp_path, caplog):
    (tmp_path / "boxes").write_text("in the way")
    async with WarmPool(provider, REQUEST, size=1) as pool:
        await pool.wait_warm()
        assert "could not be started" in caplog.text
        with pytest.raises(SandboxStartError):
            await pool.take()


async def test_under_a_cap_who_waits_gets_the_box_that_was_to_be_warm(tmp_path):
    provider = load_provider("process", root=tmp_path / "boxes", max_boxes=2)
    async with WarmPool(provider, REQUEST, size=2) as pool:
        await pool.wait_warm()
        used = [await pool.take(), await pool.take()]  # two more wait to be started for these
        takers = [asyncio.create_task(pool.take()) for _ in range(2)]
        await asyncio.sleep(0)
        for box in used:
            await box.close()
        later = [await asyncio.wait_for(taker, 60) for taker in takers]
        assert len({box.id for box in (*used, *later)}) == 4
        await asyncio.gather(*(box.close() for box in later))
    await provider.aclose()
    assert list_boxes(tmp_path) == []


async def test_a_taker_that_is_cancelled_leaves_its_box_to_the_next(tmp_path):
    provider = load_provider("process", root=tmp_path / "boxes", max_boxes=1)
    async with WarmPool(provider, REQUEST, size=1) as pool:
        await pool.wait_warm()
        used = await pool.take()
        for turns in range(6):
            taker = asyncio.create_task(pool.take())
            for _ in range(turns):
                await asyncio.sleep(0)
            taker.cancel()
            with pytest.raises(asyncio.CancelledError):
                await taker
        taker = asyncio.create_task(pool.take())
        await used.close()
        await (await asyncio.wait_for(taker, 60)).close()
    await provider.aclose()
    assert list_boxes(tmp_path) == []


def test_a_pool_of_none_is_refused(tmp_path):
    with pytest.raises(UsageError, match="keeps none ready"):
        WarmPool(None, REQUEST, size=0)
