"""The one line that an author writes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

from castform.errors import UsageError
from castform.testing.hostile.report import HostileReport

if TYPE_CHECKING:
    from benchmax.envs import Environment, Example


def assert_attacks_earn_nothing(
    subject: Path | str | Environment[Any, Any],
    example: Example[Any] | None = None,
    **words: Any,  # those of `attack_tasks` or `attack_environment`
) -> HostileReport:
    """Play every attack; AssertionError with the table of all when one was paid, got out or was not played.

    `subject`: a folder of Harbor tasks, with the words of `attack_tasks`; or an environment with the
    `example` to play on (its first, unless given), with those of `attack_environment`. The
    environment is closed afterwards. Call it from a plain function, not an async one.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        report = asyncio.run(_play(subject, example, words))
    else:
        raise UsageError(
            "attacks are played in an event loop of their own and cannot be inside one",
            hint="call it from a plain function: `def test_…`, not `async def test_…`",
        )
    if report.succeeded or report.unplayed:
        raise AssertionError(report.describe())
    if all(result.idle for result in report.results):
        raise AssertionError(f"no attack could be tried\n{report.describe()}")
    return report


async def _play(subject: Any, example: Any, words: dict[str, Any]) -> HostileReport:
    if isinstance(subject, Path | str):
        from castform.testing.hostile.tasks import attack_tasks

        return await attack_tasks(subject, **words)
    from castform.testing.hostile.environments import attack_environment

    try:
        if example is None:
            dataset = await subject.create_dataset("train", Path(), max_examples=1)
            example = dataset[0]
        return await attack_environment(subject, example, **words)
    finally:
        await subject.aclose()
