"""Images, limits without control groups, and boxes of a plain user."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from castform_sandbox_bubblewrap.config import BubblewrapConfig
from castform_sandbox_bubblewrap.provider import BubblewrapProvider

from castform.sandbox.contract import BoxRequest, ImageBuild, Limits, ModelEndpoint, NetworkPolicy
from castform.sandbox.errors import MissingError, SandboxBuildError, SandboxGoneError, UsageError

pytestmark = [
    pytest.mark.bubblewrap,
    pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap needs Linux"),
]

DOCKERFILE = """
ARG VERSION=3
FROM python:${VERSION}
ARG WHO=world
ENV GREETING="hello $WHO"
WORKDIR /app
COPY src/ ./src/
COPY --chmod=755 src/run.sh /app/
COPY <<EOF conf.txt
$GREETING
EOF
ADD pack.tar /unpacked/
RUN <<EOF
set -e
echo "$GREETING from $WHO" > said
chmod 640 said
EOF
RUN ["sh", "-c", "pwd > here"]
ENTRYPOINT ["sh", "-c", "echo began > /entry; exec \\"$@\\"", "--"]
"""


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of every provider here, so that the plain root is made once; at the end no box is in it."""
    folder = tmp_path_factory.mktemp("state")
    yield folder
    assert list((folder / "boxes").iterdir()) == []


@pytest.fixture(scope="module")
def provider(state: Path) -> Iterator[BubblewrapProvider]:
    provider = BubblewrapProvider(BubblewrapConfig(folder=state))
    yield provider
    asyncio.run(provider.aclose())


def make_context(folder: Path, dockerfile: str) -> ImageBuild:
    (folder / "src" / "deep").mkdir(parents=True)
    (folder / "Dockerfile").write_text(dockerfile)
    (folder / "src" / "run.sh").write_text("#!/bin/sh\necho ran\n")
    (folder / "src" / "deep" / "left.key").write_text("secret")
    (folder / "src" / "deep" / "kept").write_text("kept\n")
    (folder / ".dockerignore").write_text("**/*.key\n")
    subprocess.run(["tar", "-cf", "pack.tar", "-C", "src", "run.sh"], cwd=folder, check=True)
    return ImageBuild(context=folder)


async def test_a_dockerfile_is_built_once_and_boxes_begin_with_it(
    provider: BubblewrapProvider, state: Path, tmp_path: Path
) -> None:
    image = make_context(tmp_path / "context", DOCKERFILE)
    before = {entry.name for entry in (state / "images").glob("*")}
    boxes = await asyncio.gather(
        *(provider.start(BoxRequest(image=image, keep_entrypoint=turn == 0)) for turn in range(2))
    )
    waits = "until [ -s /entry ]; do sleep 0.05; done; cat /entry"  # it starts where /app is removed below
    assert (await boxes[0].exec(["sh", "-c", waits], cwd="/", timeout_seconds=120)).text == "began\n"
    assert (await boxes[1].exec(["test", "-e", "/entry"], cwd="/")).exit_code == 1
    script = "pwd; cat said conf.txt here; ./run.sh; find src /unpacked -type f | sort; stat -c %a said"
    for box in boxes:
        said = (await box.exec(["sh", "-c", script])).text.split("\n")
        assert said[:6] == [
            "/app",
            "hello world from world",
            "hello world",
            "/app",
            "ran",
            "/unpacked/run.sh",
        ]
        assert said[6:9] == ["src/deep/kept", "src/run.sh", "640"]
        assert any("FROM python:${VERSION} is ignored" in note for note in box.notes)
        await box.exec(["sh", "-c", "rm -rf /app"])
    third = await provider.start(BoxRequest(image=image))
    assert (await third.exec(["./run.sh"])).text == "ran\n"
    made = {entry.name for entry in (state / "images").glob("*")} - before
    assert len([name for name in made if not name.startswith("base-")]) == 1
    await provider.aclose()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("RUN echo why && false", "line 2 .*exit code 1\nwhy"),
        ("COPY src/run.sh /usr/local/bin/run", "(?s)line 2 .*Read-only"),
        ("RUN touch /usr/x", "(?s)line 2 .*Read-only"),
        ("WORKDIR /usr/src/app", "(?s)line 2 .*Read-only"),
    ],
    ids=["fails", "copy-to-usr", "write-to-usr", "workdir-in-usr"],
)
async def test_a_build_that_cannot_be_done_names_its_line(
    provider: BubblewrapProvider, tmp_path: Path, line: str, words: str
) -> None:
    image = make_context(tmp_path / "context", f"FROM a\n{line}\n")
    with pytest.raises(SandboxBuildError, match=words) as caught:
        await provider.start(BoxRequest(image=image))
    assert "docker provider" in (caught.value.hint or "")


async def test_a_file_that_is_not_in_the_context_is_refused(
    provider: BubblewrapProvider, tmp_path: Path
) -> None:
    image = make_context(tmp_path / "context", "FROM a\nCOPY ../../etc/passwd src/deep/left.key /x/\n")
    with pytest.raises(UsageError, match=r"line 2 .*not in the build's folder"):
        await provider.start(BoxRequest(image=image))


async def test_a_copy_through_a_link_of_the_image_stays_inside(
    provider: BubblewrapProvider, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    image = make_context(
        tmp_path / "context",
        f"FROM a\nRUN mkdir -p {outside} && ln -s {outside} /way\nCOPY src/run.sh /way/\n",
    )
    box = await provider.start(BoxRequest(image=image))
    assert (await box.exec(["test", "-e", "/way/run.sh"])).exit_code == 0
    assert list(outside.iterdir()) == []
    await box.close()


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("head -c 15M /dev/zero > /a; head -c 15M /dev/zero > /b; sleep 60", "disk"),
        ("exec python3 -c 'x = b\"a\" * 200_000_000; import time; time.sleep(60)'", "memory"),
    ],
    ids=["disk", "memory"],
)
async def test_without_groups_and_disks_a_box_over_its_limit_is_ended(
    state: Path, script: str, words: str
) -> None:
    config = BubblewrapConfig(folder=state, use_groups=False, use_disks=False)
    provider = BubblewrapProvider(config)
    has = await provider.check()
    assert (has.memory, has.disk, has.cpus) == ("watched", "watched", "not enforced")
    box = await provider.start(BoxRequest(limits=Limits(memory_mb=64, disk_mb=20, pids=30)))
    assert len(box.notes) == 3
    with pytest.raises(SandboxGoneError, match=f"more than it may of {words}"):
        await box.exec(["sh", "-c", script], timeout_seconds=50)
    await provider.aclose()


async def test_without_groups_processes_are_still_counted(state: Path) -> None:
    provider = BubblewrapProvider(BubblewrapConfig(folder=state, use_groups=False))
    if (await provider.check()).pids != "enforced":
        pytest.skip("this kernel does not count processes by user namespace")
    box = await provider.start(BoxRequest(limits=Limits(pids=20)))
    done = await box.exec(
        ["sh", "-c", "for i in $(seq 40); do sleep 60 & done; echo all"], timeout_seconds=30
    )
    assert "fork" in done.error_text and "all" not in done.text
    await provider.aclose()


async def test_a_box_has_no_more_memory_than_its_group(provider: BubblewrapProvider) -> None:
    if (await provider.check()).memory != "enforced":
        pytest.skip("no control group can be made here")
    box = await provider.start(BoxRequest(limits=Limits(memory_mb=64)))
    done = await box.exec(
        ["sh", "-c", "head -c 200M /dev/zero | tail -c 200M > /dev/null"], timeout_seconds=60
    )
    assert done.exit_code != 0 and done.out_of_memory
    assert (await box.exec(["echo", "here"])).text == "here\n"
    await box.close()


async def test_at_most_so_many_boxes_at_a_time(state: Path) -> None:
    provider = BubblewrapProvider(BubblewrapConfig(folder=state, max_boxes=1))
    first = await provider.start(BoxRequest())
    second = asyncio.ensure_future(provider.start(BoxRequest()))
    await first.exec(["true"])
    assert not second.done()
    await first.close()
    assert (await (await second).exec(["true"])).exit_code == 0
    assert (await provider.measure_capacity(Limits())).boxes == 1
    await provider.aclose()


def test_boxes_of_a_loop_that_has_ended_are_closed_by_another(state: Path) -> None:
    provider = BubblewrapProvider(BubblewrapConfig(folder=state, max_boxes=1))

    async def start() -> None:
        policy = NetworkPolicy(mode="allowlist", allowed_hosts=("example.org",))
        box = await provider.start(BoxRequest(network=policy))
        await box.connect(ModelEndpoint(base_url="http://127.0.0.1:9/v1", api_key="real", model="m"))
        await box.exec(["sh", "-c", "while :; do echo x; sleep 0.01; done &"])

    asyncio.run(start())
    asyncio.run(provider.aclose())
    assert list((state / "boxes").iterdir()) == []
    asyncio.run(start())  # which has a slot
    asyncio.run(provider.aclose())


async def test_a_machine_without_bwrap_says_how_to_get_it() -> None:
    with pytest.raises(MissingError, match="not installed") as caught:
        await BubblewrapProvider(BubblewrapConfig(bwrap="bwrap-that-is-not-there")).check()
    assert "apt-get install bubblewrap" in (caught.value.hint or "")


PLAIN = """
import asyncio, json, pathlib, sys
from castform.sandbox.contract import BoxRequest, Limits
from castform.sandbox.errors import UsageError
from castform_sandbox_bubblewrap.config import BubblewrapConfig
from castform_sandbox_bubblewrap.provider import BubblewrapProvider

async def main():
    provider = BubblewrapProvider(BubblewrapConfig(folder=pathlib.Path(sys.argv[1])))
    has = await provider.check()
    box = await provider.start(BoxRequest(limits=Limits(pids=40)))
    who = (await box.exec(["sh", "-c", "id -u; touch /x; ls /etc/ssh /root; cat /proc/self/uid_map"])).text.split()
    await box.write_file("/a/b", b"c")
    try:
        await box.exec(["true"], user="nobody")
        refused = ""
    except UsageError as error:
        refused = str(error)
    read = (await box.read_file("/a/b")).decode()
    await provider.aclose()
    print(json.dumps([has.users, has.memory, who, read, refused, len(list(pathlib.Path(sys.argv[1], "boxes").iterdir()))]))

asyncio.run(main())
"""


@pytest.mark.skipif(os.getuid() != 0, reason="run as root, which can become somebody else")
def test_a_plain_user_has_boxes_too(tmp_path: Path) -> None:
    python = "/usr/bin/python3"
    nobody = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
    path = os.pathsep.join(entry for entry in sys.path if entry)
    folder = Path("/tmp") / f"castform-plain-{os.getpid()}"
    env = {"PYTHONPATH": path, "HOME": str(folder), "PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"}
    wanted = f"import sys; sys.exit(sys.version_info[:2] != {sys.version_info[:2]}); "
    imports = "import castform.sandbox.errors, castform_sandbox_bubblewrap.config"
    for script in (wanted, imports):
        if (
            shutil.which("setpriv") is None
            or subprocess.run(
                [*nobody, python, "-c", script], env=env, capture_output=True, check=False
            ).returncode
        ):
            pytest.skip("no Python of this version that another user can run")
    done = subprocess.run(
        [*nobody, python, "-c", PLAIN, str(folder / "state")],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    shutil.rmtree(folder, ignore_errors=True)
    assert done.returncode == 0, done.stderr
    users, memory, who, read, refused, left = json.loads(done.stdout)
    assert (users, memory, read, left) == (False, "watched", "c", 0)
    assert who == ["0", "/root:", "0", "65534", "1"] or who == ["0", "/root:", "0", "0", "1"]
    assert "does not run as root" in refused
