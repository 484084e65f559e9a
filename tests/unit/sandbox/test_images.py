"""Images are named by what they are built from, and built once across processes."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from castform.sandbox.contract import ImageBuild
from castform.sandbox.errors import UsageError
from castform.sandbox.images import hash_build, lock_across_processes


def make_context(folder: Path) -> ImageBuild:
    (folder / "sub").mkdir(parents=True)
    (folder / "Dockerfile").write_text("FROM base\n")
    (folder / "sub" / "data").write_text("words")
    (folder / "link").symlink_to("sub/data")
    return ImageBuild(context=folder)


def test_equal_content_has_one_name_wherever_and_whenever_it_lies(tmp_path):
    one, two = make_context(tmp_path / "one"), make_context(tmp_path / "two")
    os.utime(two.context / "sub" / "data", (1, 1))
    assert hash_build(one) == hash_build(two)
    assert len(hash_build(one)) == 32


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder / "sub" / "data").write_text("other"),
        lambda folder: (folder / "sub" / "data").chmod(0o755),
        lambda folder: (folder / "sub" / "data").rename(folder / "sub" / "data2"),
        lambda folder: (folder / "empty").mkdir(),
        lambda folder: (folder / "Dockerfile").write_text("FROM other\n"),
        lambda folder: [(folder / "link").unlink(), (folder / "link").symlink_to("Dockerfile")],
    ],
    ids=["content", "mode", "name", "folder", "dockerfile", "link"],
)
def test_any_difference_that_a_build_sees_changes_the_name(change, tmp_path):
    build = make_context(tmp_path / "one")
    before = hash_build(build)
    change(build.context)
    assert hash_build(build) != before


def test_only_the_paths_that_count_do_and_the_salt_does(tmp_path):
    build = make_context(tmp_path / "one")
    before = hash_build(build, paths=["sub/data"])
    (build.context / "ignored").write_text("x")
    assert hash_build(build, paths=["sub/data"]) == before
    assert hash_build(build, paths=["sub/data"], salt="arm64") != before


@pytest.mark.parametrize(("dockerfile", "words"), [("None", "has no None"), ("../Dockerfile", "outside")])
def test_a_dockerfile_is_in_its_folder(dockerfile, words, tmp_path):
    make_context(tmp_path / "one")
    (tmp_path / "Dockerfile").write_text("FROM base\n")
    with pytest.raises(UsageError, match=words):
        hash_build(ImageBuild(context=tmp_path / "one", dockerfile=dockerfile))


async def test_tasks_exclude_each_other(tmp_path):
    inside = most = 0

    async def work() -> None:
        nonlocal inside, most
        async with lock_across_processes("image", folder=tmp_path):
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0)
            inside -= 1

    await asyncio.gather(*(work() for _ in range(4)))
    assert most == 1


async def test_another_process_is_waited_for_until_it_dies(tmp_path):
    """The other one holds the lock and is killed: the kernel gives it back."""
    code = """
import asyncio, sys
from pathlib import Path
from castform.sandbox.images import lock_across_processes
async def main():
    async with lock_across_processes("image", folder=Path(sys.argv[1])):
        print("held", flush=True)
        sys.stdin.read()
asyncio.run(main())
"""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", code, str(tmp_path)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None and await process.stdout.readline() == b"held\n"
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1), lock_across_processes("image", folder=tmp_path):
            raise AssertionError("the lock was given twice")
    async with lock_across_processes("another", folder=tmp_path):
        pass
    process.kill()
    await process.communicate()
    async with asyncio.timeout(20), lock_across_processes("image", folder=tmp_path):
        pass
