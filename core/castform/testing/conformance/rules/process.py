"""Rules of the process: groups end when they are told to, and nothing stays behind or stays changed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from benchmax.envs import Example
from castform.calls import Sampling
from castform.certify.checks.comparison import find_difference
from castform.playback import Playback
from castform.probes.tool_spam import call_every_tool
from castform.rollouts import CANCEL_GRACE_SECONDS, ENVIRONMENT_ERROR, Rollout, run_group
from castform.scripted_endpoint import ScriptedEndpoint
from castform.scripted_replies import Answer, Fault, Reply, Script, ScriptedRequest
from castform.testing.conformance.examined import Examined
from castform.testing.conformance.holdings import take_holdings, wait_for_release
from castform.testing.conformance.process_state import take_state
from castform.testing.conformance.rule import Breach, NotCheckedError

SIBLINGS = 3
STALL_SECONDS = 120.0
"""How long the slow endpoint takes: longer than anything waits for it."""
FIRST_CALL_SECONDS = 10.0
"""How long a group may take to call the model for the first time."""
TIMEOUT_SECONDS = 0.3
EXAMPLES = 2
LET_GO = (
    "release in finally, or by `async with` in rollout_context, what a rollout opens; await what it starts; "
    "aclose() lets go of what the environment itself holds"
)


def check_cancel(examined: Examined) -> list[Breach]:
    """A group that is cancelled during a model call ends, and leaves nothing."""
    example = examined.need_examples()[0]
    examined.need_context()
    breaches: list[Breach] = []
    for calls in (0, 1):  # during the first call, and during the one after it
        breaches += _leftovers(
            examined,
            partial(_cancel, examined, example, calls),
            f"after a group was cancelled during model call {calls + 1}",
            example.id,
        )
        if breaches:
            break
    return breaches


def check_timeout(examined: Examined) -> list[Breach]:
    """A group that takes too long is ended, leaves nothing, and the environment goes on working."""
    example = examined.need_examples()[0]
    examined.need_context()
    before = examined.run(_play_alone(examined, example))
    breaches = _leftovers(
        examined, partial(_time_out, examined, example), "after a group that ran out of time", example.id
    )
    after = examined.run(_play_alone(examined, example))
    if not breaches and all(r.termination_reason == ENVIRONMENT_ERROR for r in after):
        breaches.append(
            Breach(
                message=f"after a group that ran out of time the environment works no more: {after[0].error}",
                way_out="keep no state of a rollout on the environment; release it in finally",
                example_id=example.id,
            )
        )
    if not breaches and not examined.scores_groups:
        changed = next((d for a, b in zip(before, after, strict=True) if (d := find_difference(a, b))), None)
        if changed is not None and _is_repeatable(examined, example, before):
            breaches.append(
                Breach(
                    message=f"after a group that ran out of time {changed.what} is another: {changed.describe()}",
                    way_out="keep no state of a rollout on the environment; release it in finally",
                    example_id=example.id,
                )
            )
    return breaches


def _is_repeatable(examined: Examined, example: Example[Any], before: Sequence[Rollout]) -> bool:
    """Say whether a fresh environment repeats what was played before; else nothing can be told."""
    try:
        fresh = examined.subject.make()
    except Exception:  # noqa: BLE001 - the author's code; other rules report it
        return False

    async def play() -> Sequence[Rollout]:
        try:
            return await _play_alone(examined, example, environment=fresh)
        finally:
            await fresh.aclose()

    again = examined.run(play())
    return all(find_difference(a, b) is None for a, b in zip(before, again, strict=True))


def check_leftovers(examined: Examined) -> list[Breach]:
    """Rollouts that end in any way leave no task, file, thread, process or temporary file."""
    examined.need_context()
    return _leftovers(examined, partial(_play_everything, examined), "after groups that ended by themselves")


def check_state(examined: Examined) -> list[Breach]:
    """What the process shares is as it was before: environment variables, folder, decimals, signals."""
    before = take_state()
    examined.need_context()
    examined.run(_make_and_play(examined))
    now = take_state().changes(before)
    before.restore()
    changed = list(dict.fromkeys([*examined.state_changes, *now]))
    if examined.loading_changes:
        when, changed = "loading the environment", list(examined.loading_changes)
    else:
        when = "making an environment and running rollouts"
    if not changed:
        return []
    return [
        Breach(
            message=f"{when} changes {', '.join(changed)}, which everything in the process shares",
            way_out="pass it to what needs it: env= and cwd= of a subprocess, decimal.localcontext(), a logger of "
            "your own",
        )
    ]


def _leftovers(
    examined: Examined,
    work: Callable[[], Coroutine[Any, Any, list[str]]],
    when: str,
    example_id: str | None = None,
) -> list[Breach]:
    """Do the work twice: what is opened the first time may stay, what is opened each time may not.

    Where something stayed the second time the work is done once more: a pool fills up and is full.

    The work returns what is wrong with how it ended.
    """
    faults, tasks = examined.run_watched(work())
    before = take_holdings(examined.temp_dir)
    if not faults and not tasks:
        faults, tasks = examined.run_watched(work())
    left = [*(f"task {name}" for name in tasks), *wait_for_release(before, examined.temp_dir)]
    if left and not faults and not tasks:
        before = take_holdings(examined.temp_dir)
        examined.run_watched(work())
        left = list(left) if wait_for_release(before, examined.temp_dir) else []
    breaches = [Breach(message=fault, way_out=LET_GO, example_id=example_id) for fault in faults]
    if left:
        shown = ", ".join(left[:4]) + (f" and {len(left) - 4} more" if len(left) > 4 else "")
        breaches.append(
            Breach(message=f"{when} there is left: {shown}", way_out=LET_GO, example_id=example_id)
        )
    return breaches


async def _cancel(examined: Examined, example: Example[Any], calls: int) -> list[str]:
    """Cancel a group once siblings wait in model call number `calls`, from 0; one sibling is done by then."""
    stalled: list[str] = []
    quick = examined.scripts(example)[-1]

    def answer(request: ScriptedRequest) -> Answer:
        if request.session_id.endswith("-0") or request.index < calls:
            return quick(request)
        stalled.append(request.session_id)
        return Reply(content="late", latency_seconds=STALL_SECONDS)

    endpoint = ScriptedEndpoint(answer)
    try:
        group = asyncio.create_task(_run(examined, example, endpoint, examined.options.timeout_seconds))
        deadline = time.monotonic() + FIRST_CALL_SECONDS
        while len(set(stalled)) < SIBLINGS - 1 and not group.done() and time.monotonic() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.002)  # the script, which fills `stalled`, runs in another thread
        if not stalled:
            group.cancel()
            await asyncio.wait({group})
            if calls == 0:
                raise NotCheckedError("the environment did not call the model")
            return []  # conversations have one call only
        began = time.monotonic()
        group.cancel()
        await asyncio.wait({group})
        if time.monotonic() - began >= CANCEL_GRACE_SECONDS:
            return [f"a cancelled group was not done after {CANCEL_GRACE_SECONDS:g} s"]
        return []
    finally:
        await endpoint.aclose()


async def _time_out(examined: Examined, example: Example[Any]) -> list[str]:
    endpoint = ScriptedEndpoint(lambda request: Reply(content="late", latency_seconds=STALL_SECONDS))
    try:
        began = time.monotonic()
        rollouts = await _run(examined, example, endpoint, TIMEOUT_SECONDS)
        if time.monotonic() - began >= TIMEOUT_SECONDS + CANCEL_GRACE_SECONDS:
            return [f"a group that ran out of time was not done {CANCEL_GRACE_SECONDS:g} s later"]
        if any(rollout.score is not None for rollout in rollouts):
            return ["a rollout is scored though the model never answered it"]
        return []
    finally:
        await endpoint.aclose()


async def _run(
    examined: Examined, example: Example[Any], endpoint: ScriptedEndpoint, timeout_seconds: float
) -> Sequence[Rollout]:
    examined.groups += 1
    group = await run_group(
        examined.environment,
        example,
        endpoint=endpoint,
        split=examined.options.split,
        group_id=f"conformance-{examined.groups}",
        size=SIBLINGS,
        sampling=Sampling(),
        seed=examined.options.seed,
        weights=examined.options.weights,
        timeout_seconds=timeout_seconds,
    )
    return group.rollouts


async def _play_alone(
    examined: Examined, example: Example[Any], *, environment: Any = None
) -> Sequence[Rollout]:
    async with Playback() as playback:
        group = await examined.play(playback, example, examined.scripts(example), environment=environment)
    return group.rollouts


async def _play_everything(examined: Examined) -> list[str]:
    async with Playback() as playback:
        for example in examined.examples[:EXAMPLES]:
            refuse: Script = lambda request: Fault(status=400)  # noqa: E731 - one line
            await examined.play(playback, example, [*examined.scripts(example), call_every_tool, refuse])
    return []


async def _make_and_play(examined: Examined) -> None:
    environment = examined.subject.make()
    try:
        await examined.load(examined.options.split, environment=environment)
        async with Playback() as playback:
            for example in examined.examples[:EXAMPLES]:
                await examined.play(playback, example, examined.scripts(example), environment=environment)
    finally:
        await environment.aclose()
