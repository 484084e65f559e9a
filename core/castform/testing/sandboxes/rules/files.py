"""Files and folders, in and out."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from castform.sandbox.errors import SandboxFileError
from castform.testing.sandboxes.rule import BrokenRuleError, SandboxRule, check_equal, check_that
from castform.testing.sandboxes.subject import Examined, make_folder, run_shell

_SECONDS = 30.0
_BYTES = bytes(range(256)) * 400
_ODD = """
cd "$1"
printf secret > ../outside-$2
ln -s real link
mkdir folder
mkfifo pipe
printf real > real
"""


async def check_round_trip(examined: Examined) -> None:
    box = await examined.box()
    folder = await make_folder(box)
    await box.write_file(f"{folder}/new/folders/f b.bin", _BYTES, mode=0o750)
    check_equal("a file that was written", await box.read_file(f"{folder}/new/folders/f b.bin"), _BYTES)
    mode = await run_shell(box, 'ls -l "$1"', f"{folder}/new/folders/f b.bin")
    check_that(mode.startswith("-rwxr-x---"), f"a file of mode 750 is listed as {mode!r}")
    await box.write_file(f"{folder}/new/folders/f b.bin", b"")
    check_equal("a file that was replaced", await box.read_file(f"{folder}/new/folders/f b.bin"), b"")
    await run_shell(box, 'printf inside > "$1"', f"{folder}/inside")
    check_equal("a file from inside", await box.read_file(f"{folder}/inside"), b"inside")


async def check_reads_refused(examined: Examined) -> None:
    box = await examined.box()
    folder = await make_folder(box)
    await run_shell(box, _ODD, folder, "x")
    for what, path in (
        ("no file", f"{folder}/none"),
        ("a link", f"{folder}/link"),
        ("a folder", f"{folder}/folder"),
        ("a pipe", f"{folder}/pipe"),
        ("a device", "/dev/zero"),
    ):
        await _expect_file_error(f"reading {what}", lambda path=path: box.read_file(path))  # type: ignore[misc]  # bound now
    await box.write_file(f"{folder}/large", b"x" * 5001)
    await _expect_file_error(
        "reading 5001 bytes of 5000", lambda: box.read_file(f"{folder}/large", max_bytes=5000)
    )
    check_equal("bytes read of 5001", len(await box.read_file(f"{folder}/large", max_bytes=5001)), 5001)


async def check_link_replaced(examined: Examined) -> None:
    box = await examined.box()
    folder = await make_folder(box)
    await run_shell(
        box, 'cd "$1" && printf target > target && ln -s target link && ln -s /nowhere/at/all loose', folder
    )
    for name in ("link", "loose"):
        await box.write_file(f"{folder}/{name}", b"new")
        check_equal(f"{name!r} after writing", await box.read_file(f"{folder}/{name}"), b"new")
    check_equal("what the link pointed to", await box.read_file(f"{folder}/target"), b"target")


async def check_upload(examined: Examined) -> None:
    box = await examined.box()
    folder = await make_folder(box)
    source = examined.folder / "upload"
    (source / "deep" / "empty").mkdir(parents=True)
    (source / "deep" / "run.sh").write_bytes(b"#!/bin/sh\necho ran\n")
    (source / "deep" / "run.sh").chmod(0o755)
    (source / "data é").write_bytes(_BYTES)
    (source / "link").symlink_to("deep/run.sh")
    await box.upload(source, f"{folder}/in")
    check_equal(
        "a program that was uploaded", await run_shell(box, '"$1/deep/run.sh"', f"{folder}/in"), "ran"
    )
    check_equal("a link that was uploaded", await run_shell(box, '"$1/link"', f"{folder}/in"), "ran")
    check_equal("a binary file", await box.read_file(f"{folder}/in/data é"), _BYTES)
    await run_shell(box, 'test -d "$1/deep/empty"', f"{folder}/in")
    owners = await run_shell(box, 'ls -ln "$1"', f"{folder}/in/deep")
    inside = "0" if examined.capabilities.isolated else str(os.getuid())
    strange = [line for line in owners.splitlines()[1:] if line.split()[2] != inside]
    check_equal("what was uploaded for another than root", strange, [])
    await box.upload(source / "deep" / "run.sh", f"{folder}/renamed")
    check_equal("a file that was uploaded", await run_shell(box, '"$1/renamed"', folder), "ran")


async def check_download(examined: Examined) -> None:
    box = await examined.box()
    folder = await make_folder(box)
    script = """
cd "$1"
mkdir -p out/deep out/empty
printf '#!/bin/sh\\n' > out/deep/run.sh; chmod 755 out/deep/run.sh
head -c 70000 /dev/zero > out/zeros
ln -s deep/run.sh out/inside
ln -s /etc/passwd out/absolute
ln -s ../../../../../../etc/passwd out/above
ln -s ../secret out/beside
ln -s . out/dot; ln -s dot/../../secret out/round
mkfifo out/pipe
printf secret > secret
"""
    await run_shell(box, script, folder)
    target = examined.folder / "download"
    await box.download(f"{folder}/out", target)
    names = sorted(str(path.relative_to(target)) for path in target.rglob("*"))
    allowed = {"deep", "deep/run.sh", "dot", "empty", "inside", "zeros"}
    check_equal("what came out that should not", sorted(set(names) - allowed), [])
    check_equal("what did not come out", sorted(allowed - {"dot"} - set(names)), [])
    check_equal("the mode of a program", (target / "deep" / "run.sh").stat().st_mode & 0o777, 0o755)
    check_equal("a file's size", (target / "zeros").stat().st_size, 70000)
    await box.download(f"{folder}/secret", examined.folder / "file" / "mine")
    check_equal("one file", (examined.folder / "file" / "mine").read_bytes(), b"secret")


async def check_download_refused(examined: Examined) -> None:
    box = await examined.box()
    folder = await make_folder(box)
    await run_shell(box, 'mkdir "$1/big"; head -c 3000000 /dev/zero > "$1/big/f"', folder)
    for what, path, most in (
        ("a path that is not there", f"{folder}/none", 1 << 20),
        ("a folder that is too large", f"{folder}/big", 1 << 20),
        ("a file that is too large", f"{folder}/big/f", 1 << 20),
    ):
        target = examined.folder / "refused" / Path(path).name
        await _expect_file_error(
            f"downloading {what}",
            lambda path=path, target=target, most=most: box.download(path, target, max_bytes=most),  # type: ignore[misc]  # bound now
        )


async def check_files_as_root(examined: Examined) -> None:
    box = await examined.box()
    folder = await make_folder(box)
    await run_shell(box, 'printf x > "$1/f"; chmod 000 "$1/f" "$1"', folder)
    check_equal("a file that only root reads", await box.read_file(f"{folder}/f"), b"x")


async def _expect_file_error(what: str, act: Callable[[], Awaitable[object]]) -> None:
    try:
        async with asyncio.timeout(_SECONDS):
            got = await act()
    except SandboxFileError:
        return
    except TimeoutError as error:
        raise BrokenRuleError(f"{what} was not done after {_SECONDS:g} s") from error
    size = f" with {len(got)} bytes" if isinstance(got, bytes) else ""
    raise BrokenRuleError(f"{what} went well{size}, where SandboxFileError is right")


RULES = (
    SandboxRule(
        name="file-round-trip",
        promise="A file is written whole with its mode and the folders above it, and read back.",
        check=check_round_trip,
    ),
    SandboxRule(
        name="read-refused",
        promise="read_file takes regular files only: no link, device, pipe or folder, nothing too large.",
        check=check_reads_refused,
    ),
    SandboxRule(
        name="write-replaces-link",
        promise="write_file replaces a link itself and never writes through it.",
        check=check_link_replaced,
    ),
    SandboxRule(
        name="read-as-root",
        promise="read_file reads what only root can read.",
        check=check_files_as_root,
        find_disclaimer=lambda has: None if has.isolated else "files are read by who runs castform",
    ),
    SandboxRule(
        name="upload",
        promise="Files and folders go in with their modes and belong to root.",
        check=check_upload,
    ),
    SandboxRule(
        name="download",
        promise="Regular files, folders and links that stay inside come out, and nothing else.",
        check=check_download,
    ),
    SandboxRule(
        name="download-refused",
        promise="What is not there or larger than asked for is a SandboxFileError.",
        check=check_download_refused,
    ),
)
