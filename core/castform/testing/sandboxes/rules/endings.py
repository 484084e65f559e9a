"""How boxes end, and that nothing is left of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from castform.sandbox.contract import ModelEndpoint, NetworkPolicy, Sandbox
from castform.sandbox.errors import SandboxError, SandboxGoneError
from castform.testing.sandboxes.rule import (
    BrokenRuleError,
    NotCheckedError,
    SandboxRule,
    check_equal,
    check_that,
)
from castform.testing.sandboxes.subject import (
    SLEEPER,
    Examined,
    find_host_processes,
    make_token,
    wait_until_gone,
)

_SECONDS = 60.0


async def check_closed(examined: Examined) -> None:
    box = await examined.provider.start(examined.make_request())
    token = make_token()
    left = await _list_left(examined)
    await _start_sleeper(box, token)
    await box.close()
    check_equal("processes of a closed box", await wait_until_gone(token), [])
    await box.close()
    await _expect_gone(box, examined.folder)
    after = await _list_left(examined)
    check_that(set(after) < set(left) or not left, f"a closed box is still there: {sorted(after)}")


async def check_close_cancelled(examined: Examined) -> None:
    before = await _list_left(examined)
    box = await examined.provider.start(examined.make_request())
    token = make_token()
    await _start_sleeper(box, token)
    closing = asyncio.create_task(box.close())
    for _ in range(5):
        await asyncio.sleep(0)
        closing.cancel()
    (end,) = await asyncio.gather(closing, return_exceptions=True)
    check_that(
        end is None or isinstance(end, asyncio.CancelledError), f"a cancelled close ended with {end!r}"
    )
    await box.close()
    check_equal("processes of a box whose close was cancelled", await wait_until_gone(token), [])
    check_equal("what is left of it", await _list_new(examined, before), [])


async def check_close_under_way(examined: Examined) -> None:
    """A command that runs while its box is closed ends, and says why."""
    box = await examined.provider.start(examined.make_request())
    token = make_token()
    task = asyncio.create_task(box.exec(["sh", "-c", SLEEPER, "sh", token]))
    await _wait_for_sleeper(token, task)
    await asyncio.gather(box.close(), box.close())
    (end,) = await asyncio.gather(asyncio.wait_for(task, _SECONDS), return_exceptions=True)
    check_that(isinstance(end, SandboxGoneError), f"a command whose box was closed ended with {end!r}")
    check_equal("its processes", await wait_until_gone(token), [])


async def check_start_cancelled(examined: Examined) -> None:
    before = await _list_left(examined)
    began = time.monotonic()
    await (await examined.provider.start(examined.make_request())).close()
    whole = time.monotonic() - began
    for share in (0.0, 0.1, 0.3, 0.6):
        task = asyncio.create_task(examined.provider.start(examined.make_request()))
        await asyncio.sleep(share * whole)
        task.cancel()
        (end,) = await asyncio.gather(task, return_exceptions=True)
        if not isinstance(end, BaseException):
            await end.close()  # it was done before it was cancelled
        else:
            check_that(isinstance(end, asyncio.CancelledError), f"a cancelled start ended with {end!r}")
    check_equal("what is left of starts that were cancelled", await _list_new(examined, before), [])


async def check_ended_from_outside(examined: Examined) -> None:
    end_from_outside = examined.subject.end_from_outside
    if end_from_outside is None:
        raise NotCheckedError("how a box is ended from outside was not given (end_from_outside)")
    async with examined.own_box() as box:
        await end_from_outside(box)
        await _expect_gone(box, examined.folder)


async def check_fresh(examined: Examined) -> None:
    """A box has nothing of an earlier one."""
    async with examined.own_box() as box:
        await box.exec(["sh", "-c", 'echo x > "$(pwd)/castform-left"; echo x > "$HOME/castform-left"'])
    async with examined.own_box() as box:
        done = await box.exec(["sh", "-c", 'ls "$(pwd)/castform-left" "$HOME/castform-left" 2> /dev/null'])
        check_equal("files of an earlier box", done.text, "")


async def _expect_gone(box: Sandbox, folder: Path) -> None:
    acts: dict[str, Callable[[], Awaitable[object]]] = {
        "exec": lambda: box.exec(["true"]),
        "read_file": lambda: box.read_file("/etc/hostname"),
        "write_file": lambda: box.write_file("/tmp/castform-gone", b""),
        "upload": lambda: box.upload(folder, "/tmp/castform-gone-folder"),
        "download": lambda: box.download("/etc/hostname", folder / "gone"),
        "end_processes": box.end_processes,
        "set_network": lambda: box.set_network(NetworkPolicy(mode="public")),
        "connect": lambda: box.connect(
            ModelEndpoint(base_url="http://127.0.0.1:9/v1", api_key="x", model="m")
        ),
    }
    for name, act in acts.items():
        try:
            async with asyncio.timeout(_SECONDS):
                await act()
        except SandboxGoneError:
            continue
        except (SandboxError, TimeoutError) as error:
            raise BrokenRuleError(
                f"{name} of a box that has gone raised {type(error).__name__}: {error}"
            ) from error
        raise BrokenRuleError(f"{name} of a box that has gone went well")


async def _start_sleeper(box: Sandbox, token: str) -> None:
    await box.exec(["sh", "-c", 'sh -c "$1" sh "$2" > /dev/null 2>&1 &', "sh", SLEEPER, token])


async def _wait_for_sleeper(token: str, task: asyncio.Task[object]) -> None:
    for _ in range(200):
        if find_host_processes(token) or task.done():
            return
        await asyncio.sleep(0.05)


async def _list_left(examined: Examined) -> Sequence[str]:
    return [] if examined.subject.list_left is None else sorted(await examined.subject.list_left())


async def _list_new(examined: Examined, before: Sequence[str]) -> list[str]:
    return sorted(set(await _list_left(examined)) - set(before))


RULES = (
    SandboxRule(name="fresh-box", promise="A box has nothing of an earlier one.", check=check_fresh),
    SandboxRule(
        name="closed",
        promise="After close nothing of a box is left; a second close is fine, everything else is SandboxGoneError.",
        check=check_closed,
    ),
    SandboxRule(
        name="close-cancelled",
        promise="A close that is cancelled again and again leaves nothing.",
        check=check_close_cancelled,
    ),
    SandboxRule(
        name="close-under-way",
        promise="A command whose box is closed ends with SandboxGoneError, and its processes end.",
        check=check_close_under_way,
    ),
    SandboxRule(
        name="start-cancelled",
        promise="A start that is cancelled leaves nothing.",
        check=check_start_cancelled,
    ),
    SandboxRule(
        name="ended-from-outside",
        promise="Of a box that was ended from outside everything is SandboxGoneError.",
        check=check_ended_from_outside,
    ),
)
