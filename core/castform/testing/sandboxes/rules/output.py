"""What goes in by stdin and comes out by stdout and stderr."""

from __future__ import annotations

import hashlib
import random

from castform.testing.sandboxes.rule import SandboxRule, check_equal, check_that
from castform.testing.sandboxes.subject import Examined

_BIG_BYTES = 100_000_000


async def check_streams(examined: Examined) -> None:
    box = await examined.box()
    done = await box.exec(["sh", "-c", "echo out; echo err >&2"])
    check_equal("stdout and stderr", (done.stdout, done.stderr), (b"out\n", b"err\n"))


async def check_binary_output(examined: Examined) -> None:
    box = await examined.box()
    done = await box.exec(["sh", "-c", r"printf '\377\000\376\r\n'; printf '\200' >&2"])
    check_equal("binary stdout", done.stdout, b"\xff\x00\xfe\r\n")
    check_equal("binary stderr", done.stderr, b"\x80")
    check_that("\ufffd" in done.text, "text does not show what is no UTF-8 as replaced")


async def check_big_output(examined: Examined) -> None:
    box = await examined.box()
    done = await box.exec(
        ["sh", "-c", 'head -c "$1" /dev/zero; printf end', "sh", str(_BIG_BYTES)],
        max_output_bytes=65536,
        timeout_seconds=120,
    )
    check_equal("the exit code", done.exit_code, 0)
    check_equal("bytes kept", len(done.stdout), 65536)
    check_equal("bytes dropped", done.stdout_dropped, _BIG_BYTES + 3 - 65536)
    check_equal("the last bytes", done.stdout[-5:], b"\0\0end")


async def check_stdin(examined: Examined) -> None:
    box = await examined.box()
    data = random.Random(6).randbytes(1_000_003)
    done = await box.exec(["cat"], stdin=data, max_output_bytes=2 << 20, timeout_seconds=60)
    check_equal(
        "the hash of what came back", hashlib.sha256(done.stdout).digest(), hashlib.sha256(data).digest()
    )
    empty = await box.exec(["cat"], timeout_seconds=20)
    check_equal("what a command without stdin reads", (empty.exit_code, empty.stdout), (0, b""))
    unread = await box.exec(["true"], stdin=data, timeout_seconds=20)
    check_equal("the exit code of a command that does not read its stdin", unread.exit_code, 0)


RULES = (
    SandboxRule(name="streams", promise="stdout and stderr come back apart.", check=check_streams),
    SandboxRule(
        name="binary-output", promise="Output is bytes, whatever they are.", check=check_binary_output
    ),
    SandboxRule(
        name="big-output",
        promise="Of 100 MB of output the tail comes back, and how much came before it.",
        check=check_big_output,
    ),
    SandboxRule(
        name="stdin",
        promise="stdin reaches a command whole and ends; one that does not read it still ends.",
        check=check_stdin,
    ),
)
