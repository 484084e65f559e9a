"""A signal ends a command once, however often it is sent, and the work cleans up behind itself."""

from __future__ import annotations

import asyncio
import signal

import pytest

from castform.cli.signals import interrupt_on_sigterm
from castform.cli.trainer_calls import settle


def test_a_signal_that_comes_twice_cancels_the_work_once_and_waits_for_its_cleanup():
    """`timeout` signals its child, and then the group that the child is in."""
    cleaned = []

    async def work():
        try:
            signal.raise_signal(signal.SIGTERM)
            await asyncio.Event().wait()
        finally:
            signal.raise_signal(signal.SIGTERM)
            await asyncio.to_thread(cleaned.append, "boxes")

    with pytest.raises(KeyboardInterrupt), interrupt_on_sigterm() as interrupt:
        settle(asyncio.run, interrupt.hold(work()))
    assert cleaned == ["boxes"]
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
