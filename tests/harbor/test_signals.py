"""A signal ends a command once, however often it is sent, and the work cleans up behind itself."""

from __future__ import annotations

import asyncio
import signal

import pytest

from castform.cli.signals import interrupt_on_sigterm
from castform.cli.trainer_calls import settle


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["terminated", "ctrl-c"])
def test_a_signal_that_comes_again_at_once_cancels_the_work_once_and_waits_for_its_cleanup(number):
    """`timeout` signals its child, and then the group that the child is in; people press Ctrl-C thrice."""
    cleaned = []
    before = signal.getsignal(number)

    async def work():
        try:
            signal.raise_signal(number)
            await asyncio.Event().wait()
        finally:
            for _ in range(2):
                signal.raise_signal(number)
                await asyncio.to_thread(cleaned.append, "boxes")

    with pytest.raises(KeyboardInterrupt), interrupt_on_sigterm() as interrupt:
        settle(asyncio.run, interrupt.hold(work()))
    assert cleaned == ["boxes", "boxes"]
    assert signal.getsignal(number) is before
