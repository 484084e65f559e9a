"""Does environment code hold the event loop, so that every other rollout stands still?

A thread watches the loop while right and wrong answers are played. What it sees is believed
only when the same answers stall the loop in the same function again and again: a machine that
is busy with something else does not do that.
"""

from __future__ import annotations

import sysconfig
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import benchmax
import castform
from benchmax.envs import Example
from castform.certify.checks.scripts import list_examples, make_right, make_wrong
from castform.certify.checks.sources import list_sources
from castform.certify.checks.watchdog import Place, Stall, watch_loop
from castform.certify.context import CheckContext
from castform.playback import Playback
from castform.validation import Finding, Level

CHECK = "blocking"
EXAMPLES = 4
LIMIT_SECONDS = 0.2
"""A loop that answers later than this stalls a hundred other rollouts noticeably."""
DATASET_LIMIT_SECONDS = 2.0
"""Loading happens once, so it may take longer."""
CONFIRMATIONS = 2
HALF = 0.5
"""Share of a stall from which on it counts as computing."""

_LIBRARY = str(Path(sysconfig.get_paths()["stdlib"]))
_HOSTS = tuple(str(Path(str(package.__file__)).parent) for package in (benchmax, castform))


async def check_blocking(context: CheckContext) -> list[Finding]:
    """Play answers under the eyes of a watch."""
    examples = list_examples(context, EXAMPLES)
    if not examples:
        return [_finding("unchecked", "no_examples", "there are no examples to play")]
    find_place = _make_finder(context)
    async with Playback() as playback:
        play = _Player(context, playback, find_place)
        for example in examples:
            for stall in await play(example):
                confirmed = [stall]
                for _ in range(CONFIRMATIONS):
                    confirmed += _same(stall, await play(example))[:1]
                if len(confirmed) > CONFIRMATIONS:
                    return [_describe(min(confirmed, key=lambda s: s.seconds), example.id)]
    return await _check_dataset(context, len(examples), find_place)


class _Player:
    """Plays one example's answers and returns the stalls, the longest of each function."""

    def __init__(
        self, context: CheckContext, playback: Playback, find_place: Callable[[FrameType], Place | None]
    ) -> None:
        self.context = context
        self.playback = playback
        self.find_place = find_place
        self.groups = 0

    async def __call__(self, example: Example[Any]) -> list[Stall]:
        right = make_right(self.context, example)
        self.groups += 1
        with watch_loop(LIMIT_SECONDS, self.find_place) as watch:
            await self.playback.play(
                self.context.environment,
                example,
                [*([] if right is None else [right]), *make_wrong(self.context, example)],
                group_id=f"blocking-{self.groups}",
                split=self.context.split,
                weights=self.context.weights,
                timeout_seconds=self.context.timeout_seconds,
            )
        longest: dict[str, Stall] = {}
        for stall in sorted(watch.stalls, key=lambda s: s.seconds):
            longest[stall.place.function] = stall
        return list(longest.values())


def _same(stall: Stall, others: Sequence[Stall]) -> list[Stall]:
    return [other for other in others if other.place.function == stall.place.function]


async def _check_dataset(
    context: CheckContext, count: int, find_place: Callable[[FrameType], Place | None]
) -> list[Finding]:
    with watch_loop(DATASET_LIMIT_SECONDS, find_place) as watch:
        try:
            await context.environment.create_dataset(context.split, context.base_dir, max_examples=count)
        except (Exception, SystemExit):  # noqa: BLE001 - the author's code; the static check reports it
            return []
    if not watch.stalls:
        return []
    longest = max(watch.stalls, key=lambda s: s.seconds)
    return [
        _finding(
            "note",
            "dataset_blocks",
            f"create_dataset holds the event loop for {longest.seconds:.1f} s ({_where(longest.place)}) to give "
            f"{count} examples",
        )
    ]


def _describe(stall: Stall, example_id: str) -> Finding:
    computes = stall.cpu_seconds >= HALF * stall.seconds
    advice = (
        "it computes; move it to a process pool, or bound it"
        if computes
        else "it waits; use an async client, or asyncio.to_thread"
    )
    return _finding(
        "fault",
        "blocks_event_loop",
        f"{stall.place.function} ({_where(stall.place)}) holds the event loop for {stall.seconds:.2f} s or more, "
        f"each time ({stall.cpu_seconds:.2f} s of it on the processor: {advice}); no other rollout moves meanwhile",
        example_id,
    )


def _where(place: Place) -> str:
    return f"{Path(place.file).name}:{place.line}"


def _make_finder(context: CheckContext) -> Callable[[FrameType], Place | None]:
    """Return a function that finds the innermost line of the environment on a stack.

    Where its own files are not on the stack, it is the innermost line of a library that
    the environment brought in: below benchmax, and neither that, castform nor Python's own.
    """
    own = {str(source.path) for source in list_sources(context.environment)}

    def find(frame: FrameType | None) -> Place | None:
        foreign: Place | None = None
        below_host = True
        while frame is not None:
            file = frame.f_code.co_filename
            place = Place(function=frame.f_code.co_qualname, file=file, line=frame.f_lineno)
            if file in own:
                return place
            if file.startswith(_HOSTS) or (file.startswith(_LIBRARY) and "asyncio" in file):
                below_host = False
            if below_host and foreign is None and not _is_library(file):
                foreign = place
            frame = frame.f_back
        return foreign

    return find


def _is_library(file: str) -> bool:
    return file.startswith("<") or (file.startswith(_LIBRARY) and "site-packages" not in file)


def _finding(level: Level, code: str, message: str, example_id: str | None = None) -> Finding:
    return Finding(level=level, code=code, message=message, check=CHECK, example_id=example_id)
