"""What of this machine is seen from a box."""

from __future__ import annotations

import asyncio
import os
import sys

from castform.testing.sandboxes.rule import SandboxRule, check_equal, check_that, claim_isolation
from castform.testing.sandboxes.subject import Examined, make_token, run_shell

_COMMON = frozenset(
    {
        "PATH",
        "HOME",
        "PWD",
        "OLDPWD",
        "SHLVL",
        "_",
        "LANG",
        "LC_ALL",
        "TERM",
        "USER",
        "SHELL",
        "TMPDIR",
        "HOSTNAME",
        "LOGNAME",
    }
)


async def check_env(examined: Examined) -> None:
    box = await examined.box()
    names = {line.partition("=")[0] for line in (await run_shell(box, "env")).splitlines() if "=" in line}
    shared = {name for name in names & set(os.environ) if name not in _COMMON and os.environ[name]}
    check_equal("this process's variables that a box has", sorted(shared), [])


async def check_files(examined: Examined) -> None:
    box = await examined.box()
    secret = examined.folder / make_token()
    secret.write_text("host", encoding="utf-8")
    for path in (secret, f"/proc/1/root{secret}", f"/proc/self/root{secret}"):
        done = await box.exec(["cat", str(path)])
        check_that(b"host" not in done.stdout, f"a file of this machine is read from inside by {path}")


async def check_processes(examined: Examined) -> None:
    box = await examined.box()
    token = make_token()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", "input()", token, stdin=asyncio.subprocess.PIPE
    )
    try:
        seen = await run_shell(box, 'cat /proc/[0-9]*/cmdline 2> /dev/null | tr "\\0" "\\n"; true')
        check_that(token not in seen, "processes of this machine are seen from inside")
        done = await box.exec(["sh", "-c", f"kill -9 {process.pid}"])
        check_that(
            process.returncode is None, f"a process of this machine was killed from inside: {done.exit_code}"
        )
    finally:
        process.kill()
        await process.wait()


async def check_engine(examined: Examined) -> None:
    box = await examined.box()
    found = await run_shell(
        box,
        "for s in /var/run/docker.sock /run/docker.sock /run/containerd/containerd.sock; do [ -e $s ] && echo $s; done; true",
    )
    check_equal("sockets of an engine inside", found, "")
    written = await run_shell(
        box,
        "for f in /proc/sys/kernel/core_pattern /proc/sysrq-trigger /sys/kernel/uevent_helper; do"
        ' [ -e $f ] && (: >> "$f") 2> /dev/null && echo $f; done; true',
    )
    check_equal("switches of the kernel that a box can write to", written, "")


RULES = (
    SandboxRule(
        name="host-env", promise="A box has none of the variables of castform's process.", check=check_env
    ),
    SandboxRule(
        name="host-files",
        promise="Files of this machine are not there.",
        check=check_files,
        find_disclaimer=claim_isolation,
    ),
    SandboxRule(
        name="host-processes",
        promise="Processes of this machine are neither seen nor ended.",
        check=check_processes,
        find_disclaimer=claim_isolation,
    ),
    SandboxRule(
        name="host-switches",
        promise="Neither an engine's socket nor the kernel's switches are within reach.",
        check=check_engine,
        find_disclaimer=claim_isolation,
    ),
)
