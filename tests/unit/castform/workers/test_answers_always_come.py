"""Whatever the author's code raises or gives back, the host is answered: nobody waits for ever."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from benchmax.envs import Example
from castform.plugins import load_environment
from castform.workers.exceptions import MAX_TEXT, describe_exception, rebuild_exception

RAISING = """
import asyncio
from benchmax.envs import BaseEnv


class Mute(Exception):
    def __str__(self):
        raise RuntimeError("no words")


class Aside(BaseException):
    __notes__ = 5


def fail(name):
    raise {"mute": Mute(), "aside": Aside("not an Exception"), "cancel": asyncio.CancelledError(),
           "long": ValueError("x" * 70_000_000)}[name]


class Raising(BaseEnv):
    async def create_dataset(self, split, base_dir, *, max_examples=None):
        fail(base_dir.name)

    def gold(self, example):
        fail(example.id)
"""


@pytest.fixture(scope="module")
def raising(tmp_path_factory):
    path = tmp_path_factory.mktemp("raising") / "raising.py"
    path.write_text(RAISING)
    return str(path)


async def test_exceptions_that_cannot_be_read_come_back_as_exceptions(raising):
    environment = load_environment(raising, {}, workers=1).environment
    try:
        for name, kind, text in (
            ("mute", "Mute", "its text cannot be read"),
            ("aside", "Aside", "not an Exception"),
            ("long", "ValueError", "x" * MAX_TEXT + "…"),
        ):
            with pytest.raises(Exception) as made:
                async with asyncio.timeout(120):
                    await environment.create_dataset("train", Path(name))
            assert (type(made.value).__name__, str(made.value)) == (kind, text)
        with pytest.raises(asyncio.CancelledError):
            environment.gold(Example("cancel", {}))
    finally:
        await environment.aclose()


def test_an_error_without_arguments_or_with_a_stop_in_it_is_told_too():
    from castform.errors import UsageError

    class Empty(UsageError):
        def __init__(self) -> None:
            pass

    told = rebuild_exception(describe_exception(Empty()))
    assert (type(told), str(told)) == (UsageError, "")
    stopped = rebuild_exception(describe_exception(StopIteration("no more")))
    assert isinstance(stopped, RuntimeError) and str(stopped) == "no more"
