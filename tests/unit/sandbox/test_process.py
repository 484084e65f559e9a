"""What is particular to `process`: it says what it does not honour, and watches what it uses."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys

import pytest

from castform.sandbox.contract import BoxRequest, ImageBuild, Limits, ModelEndpoint, NetworkPolicy
from castform.sandbox.errors import ExecTimeoutError, SandboxGoneError, SandboxStartError, UsageError
from castform.sandbox.owner import current_owner
from castform.sandbox.process.provider import OWNER_FILE, ProcessProvider

PUBLIC = NetworkPolicy(mode="public")
NO_LIMITS = Limits(cpus=None, memory_mb=None, pids=None, disk_mb=None)


async def test_a_box_says_what_it_does_not_honour(provider):
    box = await provider.start(BoxRequest())
    assert "nothing is isolated" in box.notes[0]
    assert "the network is public, not 'none'" in box.notes
    assert "cpus = 1 is not enforced" in box.notes
    assert len(box.notes) == 4
    free = await provider.start(BoxRequest(network=PUBLIC, limits=NO_LIMITS))
    assert len(free.notes) == 1


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (BoxRequest(image="python:3.12"), "has no images"),
        (BoxRequest(image=ImageBuild(context=None)), "has no images"),
        (BoxRequest(user="agent"), "not as 'agent'"),
        (BoxRequest(workdir="here"), "not an absolute path"),
    ],
)
async def test_what_it_cannot_do_is_refused(request_, words, provider):
    with pytest.raises(UsageError, match=words):
        await provider.start(request_)


async def test_relative_paths_and_empty_commands_are_refused(box):
    for act in (
        box.read_file("a"),
        box.write_file("a", b""),
        box.download("a", None),
        box.exec([]),
        box.exec(["true"], user="agent"),
        box.set_network(NetworkPolicy()),
    ):
        with pytest.raises(UsageError):
            await act
    await box.set_network(PUBLIC)


async def test_a_box_that_uses_too_much_ends_with_the_reason(provider):
    box = await provider.start(BoxRequest(limits=Limits(cpus=None, memory_mb=None, pids=5, disk_mb=None)))
    with pytest.raises(SandboxGoneError, match="processes, more than the 5 it may have"):
        await box.exec(["sh", "-c", "for i in 1 2 3 4 5 6 7 8; do sleep 20 & done; wait"], timeout_seconds=30)
    with pytest.raises(SandboxGoneError, match="more than the 5"):
        await box.read_file("/etc/hostname")


async def test_a_timeout_ends_a_session_that_has_wiped_its_environment(box, tmp_path):
    """Its parent, which has the mark, is there to find it by when the time is up."""
    script = r'env -i setsid sh -c "while :; do echo >> \$1; sleep 0.02; done" sh "$1" & wait'
    with pytest.raises(ExecTimeoutError):
        await box.exec(["sh", "-c", script, "sh", str(tmp_path / "beat")], timeout_seconds=0.5)
    size = (tmp_path / "beat").stat().st_size
    done = await box.exec(["sh", "-c", 'sleep 0.2; wc -c < "$1"', "sh", str(tmp_path / "beat")])
    assert size > 0 and int(done.text) == size


async def test_a_cap_counts_boxes_that_start(tmp_path):
    provider = ProcessProvider(root=str(tmp_path / "boxes"), max_boxes=2)
    request = BoxRequest(network=PUBLIC, limits=NO_LIMITS)
    one, two = await asyncio.gather(provider.start(request), provider.start(request))
    third = asyncio.create_task(provider.start(request))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.shield(third), 0.05)
    await one.close()
    await (await third).close()
    await two.close()
    assert (await provider.measure_capacity(NO_LIMITS)).boxes == 2
    await provider.aclose()


async def test_a_start_that_fails_gives_its_slot_back(tmp_path):
    (tmp_path / "file").write_text("in the way")
    provider = ProcessProvider(root=str(tmp_path / "file"), max_boxes=1)
    for _ in range(3):
        with pytest.raises(SandboxStartError, match="folders cannot be made"):
            await asyncio.wait_for(provider.start(BoxRequest()), 20)


async def test_closing_the_provider_closes_its_boxes(provider, tmp_path):
    boxes = [await provider.start(BoxRequest()) for _ in range(3)]
    await provider.aclose()
    assert list((tmp_path / "boxes").iterdir()) == []
    with pytest.raises(SandboxGoneError, match="it was closed"):
        await boxes[0].exec(["true"])


async def test_the_first_start_clears_what_a_killed_run_left(provider, tmp_path):
    folder = tmp_path / "boxes" / "box-dead"
    folder.mkdir(parents=True)
    dead = {**current_owner().labels(), "castform.owner.start": "1"}
    (folder / OWNER_FILE).write_text(json.dumps(dead))
    box = await provider.start(BoxRequest())
    assert [path.name for path in (tmp_path / "boxes").iterdir()] == [box.id]


async def test_a_folder_whose_owner_cannot_be_read_is_left_alone(provider, box, tmp_path):
    """A reaper that cannot tell whose a box is does not remove it."""
    for name, text in (("box-none", None), ("box-odd", "{"), ("box-list", "[]"), ("box-empty", "{}")):
        (tmp_path / "boxes" / name).mkdir()
        if text is not None:
            (tmp_path / "boxes" / name / OWNER_FILE).write_text(text)
    labels = json.loads((tmp_path / "boxes" / box.id / OWNER_FILE).read_text())
    dead = tmp_path / "boxes" / "box-dead"
    dead.mkdir()
    (dead / OWNER_FILE).write_text(json.dumps({**labels, "castform.owner.start": "1"}))
    assert await provider.reap() == ["box-dead"]
    assert await provider.reap() == []
    assert len(list((tmp_path / "boxes").iterdir())) == 5


async def test_a_model_that_is_connected_while_the_box_closes_is_served_to_nobody(provider):
    endpoint = ModelEndpoint(base_url="http://127.0.0.1:9/v1", api_key="real", model="m")
    for turns in range(6):
        box = await provider.start(BoxRequest(network=PUBLIC))
        connecting = asyncio.ensure_future(box.connect(endpoint))
        for _ in range(turns):
            await asyncio.sleep(0)
        await box.close()
        [inside] = await asyncio.gather(connecting, return_exceptions=True)
        if isinstance(inside, ModelEndpoint):
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection("127.0.0.1", int(inside.root_url.rpartition(":")[2]))
        else:
            assert isinstance(inside, SandboxGoneError)


async def test_words_that_no_program_can_be_given_are_exit_code_126(box):
    done = await box.exec(["true", "x" * 200_000])
    assert (done.exit_code, b"too long" in done.stderr) == (126, True)
    assert (await box.exec(["echo", "here"])).text == "here\n"


async def test_boxes_that_run_count_among_those_that_fit(provider, box):
    limits = Limits(cpus=None, memory_mb=10**9, pids=None, disk_mb=None)
    assert (await provider.measure_capacity(limits)).boxes == 1


FULL = """
import asyncio, resource, sys
from castform.sandbox.contract import BoxRequest, NetworkPolicy
from castform.sandbox.errors import SandboxStartError
from castform.sandbox.process.provider import ProcessProvider

async def main():
    provider = ProcessProvider(root=sys.argv[1], max_boxes=1)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))  # as on a full disk, a file is made and cannot be written
    for _ in "12":
        try:
            await provider.start(BoxRequest(network=NetworkPolicy(mode="public")))
        except SandboxStartError as error:
            print(error.hint)

asyncio.run(main())
"""


def test_a_disk_that_is_full_leaves_no_folder_of_nobody(tmp_path):
    root = tmp_path / "boxes"
    done = subprocess.run([sys.executable, "-c", FULL, root], capture_output=True, text=True, timeout=60)
    assert done.stdout.count("make room there") == 2, done.stderr
    assert list(root.iterdir()) == []
