"""Wait until a box is ready: a command is run until it succeeds, with the rules of Docker's HEALTHCHECK."""

from __future__ import annotations

import asyncio
import time

from castform.sandbox.errors import ExecTimeoutError
from castform_harbor.box import Box
from castform_harbor.errors import HealthcheckError
from castform_harbor.task_config import Healthcheck


async def wait_until_healthy(box: Box, check: Healthcheck | None, *, user: str | None = None) -> None:
    """Return once the command exits 0.

    HealthcheckError after `retries` failures in a row, of which those within the start period do not
    count. A command that takes too long failed.
    """
    if check is None:
        return
    started = time.monotonic()
    failures = 0
    while True:
        starting = time.monotonic() - started < check.start_period_seconds
        problem = await _try(box, check, user)
        if problem is None:
            return
        if not starting:
            failures += 1
            if failures >= check.retries:
                raise HealthcheckError(
                    f"the healthcheck failed {failures} times in a row ({problem}): {check.command}"
                )
        await asyncio.sleep(check.start_interval_seconds if starting else check.interval_seconds)


async def _try(box: Box, check: Healthcheck, user: str | None) -> str | None:
    try:
        done = await box.run(check.command, user=user, timeout_seconds=check.timeout_seconds)
    except ExecTimeoutError:
        return f"no answer within {check.timeout_seconds:g} s"
    return None if done.exit_code == 0 else f"exit code {done.exit_code}"
