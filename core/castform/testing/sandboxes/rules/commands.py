"""How commands run, end and are ended."""

from __future__ import annotations

import asyncio
import contextlib
import time

from castform.sandbox.contract import Sandbox
from castform.sandbox.errors import ExecTimeoutError, UsageError
from castform.testing.sandboxes.rule import BrokenRuleError, SandboxRule, check_equal, check_that
from castform.testing.sandboxes.subject import (
    SLEEPER,
    Examined,
    find_host_processes,
    make_folder,
    make_token,
    run_shell,
    wait_until_gone,
)

_PROMPT_SECONDS = 10.0
"""Longest for what has nothing to wait for, on a busy machine."""
_LONG_SECONDS = (30 * 86400.0, 1e10, 1e308, float("inf"))
"""A month is more milliseconds than 31 bits hold; the others are more than clocks do."""
_BEAT = """
echo kept > "$1/kept"
(while :; do date +%s >> "$1/beat"; sleep 0.1; done) &
if command -v setsid > /dev/null; then
    setsid sh -c 'while :; do date +%s >> "$1/beat2"; sleep 0.1; done' sh "$1" &
fi
echo started
wait
"""
_SIZES = 'cat "$1"/beat* | wc -c'


async def check_exit_codes(examined: Examined) -> None:
    box = await examined.box()
    for script, expected in (("exit 0", 0), ("exit 3", 3), ("kill -9 $$", 137), ("kill -15 $$", 143)):
        check_equal(
            f"the exit code of `{script}`", (await box.exec(["sh", "-c", script])).exit_code, expected
        )
    code = (await box.exec(["castform-no-such-program"])).exit_code
    check_that(code in (126, 127), f"a program that is not there ends with {code}, not with 126 or 127")


async def check_words(examined: Examined) -> None:
    box = await examined.box()
    words = ["a b", "", "$HOME", "'", '"', "\\", "*", "é", "-n", "line\nline"]
    done = await box.exec(["sh", "-c", 'for w in "$@"; do printf "%s|" "$w"; done', "sh", *words])
    check_equal("what a command gets as its arguments", done.text, "".join(f"{word}|" for word in words))


async def check_workdir_and_env(examined: Examined) -> None:
    async with examined.own_box(examined.make_request(env={"BOX_VALUE": "of the box", "BOTH": "box"})) as box:
        folder = await make_folder(box)
        script = 'printf "%s|%s|%s|%s" "$(pwd -P)" "$BOX_VALUE" "$BOTH" "$OWN"'
        done = await box.exec(["sh", "-c", script], cwd=folder, env={"BOTH": "command", "OWN": "a b\nc"})
        check_equal("folder and variables", done.text, f"{folder}|of the box|command|a b\nc")
        again = await box.exec(["sh", "-c", 'printf "%s|%s" "$BOTH" "$OWN"'])
        check_equal("the variables of the next command", again.text, "box|")
        odd = {"A B": "1", "2.x-y": "$HOME %s", "é": "`id`"}
        with contextlib.suppress(UsageError):  # what cannot be set is told
            told = (await box.exec(["cat", "/proc/self/environ"], env=odd)).text.split("\0")
            lost = [name for name, value in odd.items() if f"{name}={value}" not in told]
            check_equal("variables with odd names that a command lacks", lost, [])


async def check_missing_workdir(examined: Examined) -> None:
    box = await examined.box()
    code = (await box.exec(["true"], cwd="/castform/no/such/folder")).exit_code
    check_that(
        code in (126, 127), f"a command in a folder that is not there ends with {code}, not 126 or 127"
    )


async def check_env_off_command_lines(examined: Examined) -> None:
    box = await examined.box()
    token = make_token()
    folder = await make_folder(box)
    task = asyncio.create_task(
        box.exec(
            ["sh", "-c", 'printf "%s" "$HIDDEN" > "$1/seen"; sleep 20', "sh", folder],
            env={"HIDDEN": token},
            timeout_seconds=20,
        )
    )
    try:
        await _wait_for_file(box, f"{folder}/seen")
        shown = find_host_processes(token)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    check_equal("the variable inside", await box.read_file(f"{folder}/seen"), token.encode())
    check_equal("processes that show a variable's value on their command line", shown, [])


async def check_timeout(examined: Examined) -> None:
    box = await examined.box()
    folder = await make_folder(box)
    began = time.monotonic()
    try:
        await box.exec(["sh", "-c", _BEAT, "sh", folder], timeout_seconds=1.5)
    except ExecTimeoutError as error:
        check_equal("what was written before the timeout", error.result.text.strip(), "started")
    else:
        raise BrokenRuleError("a command that never ends came back without ExecTimeoutError")
    took = time.monotonic() - began
    check_that(took < 1.5 + _PROMPT_SECONDS, f"a timeout of 1.5 s took {took:.1f} s")
    before = await run_shell(box, _SIZES, folder)
    await asyncio.sleep(0.7)  # for what should have died to show that it has not
    check_equal(
        "the size of what descendants write after the timeout", await run_shell(box, _SIZES, folder), before
    )
    check_equal("a file from before the timeout", await box.read_file(f"{folder}/kept"), b"kept\n")


async def check_long_timeouts(examined: Examined) -> None:
    box = await examined.box()
    for seconds in _LONG_SECONDS:
        done = await box.exec(["echo", "done"], timeout_seconds=seconds)
        check_equal(f"a command that has {seconds:g} s", (done.exit_code, done.text.strip()), (0, "done"))


async def check_cancelled_command(examined: Examined) -> None:
    box = await examined.box()
    folder = await make_folder(box)
    task = asyncio.create_task(box.exec(["sh", "-c", _BEAT, "sh", folder]))
    await _wait_for_file(box, f"{folder}/beat")
    task.cancel()
    (end,) = await asyncio.gather(task, return_exceptions=True)
    check_that(isinstance(end, asyncio.CancelledError), f"a cancelled command ended with {end!r}")
    before = await run_shell(box, _SIZES, folder)
    await asyncio.sleep(0.7)  # as above
    check_equal("the size of what a cancelled command writes", await run_shell(box, _SIZES, folder), before)


async def check_child_that_stays(examined: Examined) -> None:
    box = await examined.box()
    token = make_token()
    folder = await make_folder(box)
    began = time.monotonic()
    script = 'sh -c "$1" sh "$2" & echo $! > "$3/pid"; echo done'
    done = await box.exec(["sh", "-c", script, "sh", SLEEPER, token, folder], timeout_seconds=25)
    took = time.monotonic() - began
    check_equal("what the first process wrote", done.text.strip(), "done")
    check_that(took < _PROMPT_SECONDS, f"a child that holds the output open kept the command {took:.1f} s")
    alive = await box.exec(["sh", "-c", 'kill -0 "$(cat "$1/pid")"', "sh", folder])
    check_equal("whether the child runs on (0: yes)", alive.exit_code, 0)
    await box.end_processes()
    check_equal("processes after end_processes", await wait_until_gone(token), [])
    check_equal("the box after end_processes", await run_shell(box, "echo here"), "here")
    check_that(bool(await box.read_file(f"{folder}/pid")), "a file is gone after end_processes")


async def check_concurrent_commands(examined: Examined) -> None:
    box = await examined.box()
    ends = await asyncio.gather(
        *(box.exec(["sh", "-c", 'printf "%s" "$1"; exit "$1"', "sh", str(n)]) for n in range(12))
    )
    check_equal(
        "twelve commands at once", [(e.exit_code, e.text) for e in ends], [(n, str(n)) for n in range(12)]
    )


async def check_users(examined: Examined) -> None:
    async with examined.own_box(examined.make_request(user="1234")) as box:
        check_equal("the box's user", await run_shell(box, "id -u"), "1234")
        check_equal("a command's user", await run_shell(box, "id -u", user="4321"), "4321")
        check_equal("root", await run_shell(box, "id -u", user="root"), "0")
        folder = await run_shell(box, 'd=$(mktemp -d) && chmod 755 "$d" && echo "$d"', user="root")
        await box.write_file(f"{folder}/mine", b"x", mode=0o600, user="1234")
        owner = await run_shell(box, 'cat "$1"; ls -n "$1"', f"{folder}/mine")
        check_that(owner.startswith("x") and " 1234 " in owner, f"a file written for user 1234 is {owner!r}")


async def _wait_for_file(box: Sandbox, path: str) -> None:
    script = 'i=0; while [ ! -s "$1" ] && [ $i -lt 100 ]; do sleep 0.1; i=$((i+1)); done; test -s "$1"'
    await run_shell(box, script, path)


RULES = (
    SandboxRule(
        name="exit-codes",
        promise="A command's exit code comes back, 128 + N after signal N, 126 or 127 where it cannot start.",
        check=check_exit_codes,
    ),
    SandboxRule(
        name="arguments",
        promise="Arguments reach a command as they are; no shell reads them.",
        check=check_words,
    ),
    SandboxRule(
        name="workdir-and-env",
        promise="A command runs in its folder with the box's variables and its own, which end with it.",
        check=check_workdir_and_env,
    ),
    SandboxRule(
        name="workdir-missing",
        promise="A command in a folder that is not there ends with 126 or 127.",
        check=check_missing_workdir,
    ),
    SandboxRule(
        name="env-hidden",
        promise="A command's variables never show on a command line outside.",
        check=check_env_off_command_lines,
    ),
    SandboxRule(
        name="timeout",
        promise="At its timeout a command dies with all its descendants, sessions of their own included; files stay.",
        check=check_timeout,
    ),
    SandboxRule(
        name="long-timeout",
        promise="A timeout may be as long as anybody likes.",
        check=check_long_timeouts,
    ),
    SandboxRule(
        name="cancelled-command",
        promise="A cancelled command dies with all its descendants.",
        check=check_cancelled_command,
    ),
    SandboxRule(
        name="background",
        promise="A child that holds the output open keeps nobody waiting and runs on until end_processes.",
        check=check_child_that_stays,
    ),
    SandboxRule(
        name="concurrent-commands",
        promise="Commands of one box run at the same time and do not mix.",
        check=check_concurrent_commands,
    ),
    SandboxRule(
        name="users",
        promise="Commands and files belong to the user that is asked for.",
        check=check_users,
        find_disclaimer=lambda has: None if has.users else "the provider has no other users",
    ),
)
