"""The parts that need no engine: who a process belongs to, limits as the kernel says them, frames, addresses."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
from pathlib import Path

import pytest
from castform_sandbox_docker.attach import Attached
from castform_sandbox_docker.cgroups import Groups, find_groups
from castform_sandbox_docker.engine import Engine
from castform_sandbox_docker.forwarder import PROGRAMS, make_command
from castform_sandbox_docker.images import describe_way_out
from castform_sandbox_docker.limits import check_limits
from castform_sandbox_docker.network import count_free_networks
from castform_sandbox_docker.processes import Process, find_left_running, find_marker, find_own, parse_process
from castform_sandbox_docker.provider import make_folder
from castform_sandbox_docker.reap import OWNER_FILE, reap_folders
from hypothesis import given
from hypothesis import strategies as st

from castform.sandbox import load_provider
from castform.sandbox.contract import BoxRequest, ImageBuild, Limits
from castform.sandbox.errors import (
    MissingError,
    SandboxError,
    SandboxFileError,
    SandboxStartError,
    UsageError,
)
from castform.sandbox.owner import current_owner

INIT = 100


def make_process(
    pid: int, *, parent: int = INIT, session: int = 0, started: int = 50, marker: str = ""
) -> Process:
    return Process(pid=pid, parent=parent, session=session or pid, started=started, marker=marker)


BOX = [
    make_process(INIT, parent=1, session=INIT, started=10),
    make_process(101, session=INIT, started=11),  # what the first process itself runs
    make_process(110, parent=9, started=20, marker="old"),
    make_process(111, parent=INIT, session=111, started=21),  # a daemon of an earlier command
    make_process(112, parent=111, session=111, started=60),  # and what it started meanwhile
    make_process(120, parent=9, started=50, marker="mine"),
    make_process(121, parent=120, session=120, started=51, marker="mine"),
    make_process(122, parent=INIT, session=122, started=52, marker="mine"),  # left its session
    make_process(123, parent=INIT, session=120, started=53),  # cleared its environment
    make_process(124, parent=INIT, session=124, started=54),  # cleared it and left its session and its parent
    make_process(125, parent=124, session=124, started=55),
    make_process(130, parent=9, started=51, marker="other"),
    make_process(131, parent=INIT, session=131, started=56, marker="other"),
]


def test_a_commands_own_processes_are_found_however_they_hide():
    own = find_own(BOX, init=INIT, marker="mine", leader=120, since=50, others={"other"})
    assert own == {120, 121, 122, 123, 124, 125}


def test_a_forged_marker_of_an_ended_command_does_not_hide_a_process():
    forged = [*BOX, make_process(126, session=126, started=57, marker="old")]
    assert 126 in find_own(forged, init=INIT, marker="mine", leader=120, since=50, others={"other"})


def test_the_first_process_and_what_the_image_started_are_left():
    assert find_left_running(BOX, init=INIT, since=15) == {process.pid for process in BOX[2:]}
    image = [
        *BOX,
        make_process(140, session=140, started=12),
        make_process(141, parent=140, session=140, started=70),
    ]
    assert find_left_running(image, init=INIT, since=15).isdisjoint({140, 141})


def test_a_process_that_names_itself_to_confuse_is_read_right():
    line = "7 (a) Z 1 1 1 (b) S 5 7 6 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 4242 0"
    assert parse_process(7, line, "m") == Process(pid=7, parent=5, session=6, started=4242, marker="m")
    assert parse_process(7, line.replace(") S", ") Z"), "m") is None
    assert parse_process(7, "nonsense", "m") is None
    assert find_marker(b"A=1\0CASTFORM_EXEC=abc\0B=2\0") == "abc"
    assert find_marker(b"X=CASTFORM_EXEC=abc\0") == ""


@given(
    parts=st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(max_size=40)), max_size=12),
    cuts=st.lists(st.integers(min_value=1, max_value=30), max_size=40),
)
def test_frames_are_put_together_however_they_are_cut(parts, cuts):
    stream = b"".join(bytes([kind, 0, 0, 0]) + len(data).to_bytes(4, "big") + data for kind, data in parts)
    attached = Attached(None, None, max_output_bytes=1 << 16)
    rest = stream
    for cut in cuts:
        attached._take(rest[:cut])
        rest = rest[cut:]
    if rest:
        attached._take(rest)
    assert attached.stdout.tail == b"".join(data for kind, data in parts if kind == 1)
    assert attached.stderr.tail == b"".join(data for kind, data in parts if kind == 2)


V1 = {
    ("memory", "memory.limit_in_bytes"): str(256 << 20),
    ("memory", "memory.memsw.limit_in_bytes"): str(256 << 20),
    ("cpu", "cpu.cfs_quota_us"): "150000",
    ("cpu", "cpu.cfs_period_us"): "100000",
    ("pids", "pids.max"): "64",
}
V2 = {
    ("memory", "memory.max"): str(256 << 20),
    ("memory", "memory.swap.max"): "0",
    ("cpu", "cpu.max"): "150000 100000",
    ("pids", "pids.max"): "64",
}
WANTED = Limits(cpus=1.5, memory_mb=256, pids=64, disk_mb=None)


@pytest.mark.parametrize("said", [V1, V2], ids=["version-1", "version-2"])
def test_limits_that_the_kernel_does_not_hold_stop_a_start(said):
    check_limits(WANTED, lambda *key: said.get(key))
    unlimited = {
        "pids.max": "max",
        "cpu.max": "max 100000",
        "cpu.cfs_quota_us": "-1",
        "memory.swap.max": "max",
    }
    for key in said:
        if key[1] == "cpu.cfs_period_us":
            continue
        wrong = {**said, key: unlimited.get(key[1], str(1 << 62))}
        with pytest.raises(SandboxStartError, match="not in force"):
            check_limits(WANTED, lambda *asked, wrong=wrong: wrong.get(asked))
    with pytest.raises(SandboxStartError, match=r"memory.*processors.*processes"):
        check_limits(WANTED, lambda *asked: None)
    check_limits(Limits(cpus=None, memory_mb=None, pids=None, disk_mb=None), lambda *asked: None)


def make_proc(folder: Path, memberships: str, mounts: str) -> Path:
    proc = folder / "proc"
    (proc / "self").mkdir(parents=True)
    (proc / "42").mkdir()
    (proc / "42" / "cgroup").write_text(memberships)
    (proc / "self" / "mountinfo").write_text(mounts)
    return proc


def test_groups_of_version_2_are_found_and_counted(tmp_path):
    group = tmp_path / "cg" / "system.slice" / "docker-abc.scope"
    group.mkdir(parents=True)
    (group / "cgroup.procs").write_text("42\n43\n")
    (group / "memory.events").write_text("low 0\noom 3\noom_kill 2\n")
    (group / "pids.max").write_text("64\n")
    mounts = f"30 1 0:26 / {tmp_path}/cg rw,nosuid - cgroup2 cgroup2 rw\n"
    proc = make_proc(tmp_path, "0::/system.slice/docker-abc.scope\n", mounts)
    groups = find_groups(42, "abc", proc=proc)
    assert groups.pids() == [42, 43]
    assert groups.count_oom_kills() == 2
    assert groups.read("pids", "pids.max") == "64"
    assert find_groups(42, "another", proc=proc) is None


def test_a_process_that_sees_another_tree_of_groups_sees_no_box(tmp_path):
    mounts = f"30 1 0:26 / {tmp_path}/cg rw,nosuid - cgroup2 cgroup2 rw\n"
    proc = make_proc(tmp_path, "0::/docker/abc\n", mounts)
    assert find_groups(42, "abc", proc=proc) is None
    assert find_groups(41, "abc", proc=proc) is None


def test_free_networks_are_counted_by_the_engines_pools():
    bridge = {"IPAM": {"Config": [{"Subnet": "172.17.0.0/16"}]}}
    assert count_free_networks({}, []) == 31
    assert count_free_networks({}, [bridge, {"IPAM": None}]) == 30
    pools = {"DefaultAddressPools": [{"Base": "10.0.0.0/22", "Size": 24}]}
    assert count_free_networks(pools, [bridge]) == 4
    assert count_free_networks(pools, [{"IPAM": {"Config": [{"Subnet": "10.0.0.0/23"}]}}]) == 2


def test_an_address_that_cannot_work_is_refused_before_anything_is_tried():
    with pytest.raises(UsageError, match="neither unix"):
        Engine("ssh://somewhere", timeout_seconds=1)


async def test_an_engine_that_is_not_there_is_missing_with_a_hint(tmp_path):
    provider = load_provider("docker", host=f"unix://{tmp_path}/none.sock")
    for work in (provider.check, provider.reap, lambda: provider.start(BoxRequest())):
        with pytest.raises(MissingError, match="does not answer") as caught:
            await work()
        assert "docker info" in caught.value.hint
        assert str(caught.value).endswith("No such file or directory")
    await provider.aclose()


def test_a_build_that_could_not_fetch_its_image_says_so(tmp_path):
    build = ImageBuild(context=tmp_path)
    refused = "Get https://registry-1.example/v2/: dial tcp: lookup registry-1.example: no such host"
    assert "FROM names an image" in describe_way_out(refused, build)
    assert "docker build" in describe_way_out(
        "The command '/bin/sh -c false' returned a non-zero code: 1", build
    )


async def test_an_engine_that_hangs_is_missing_too(tmp_path):
    path = tmp_path / "hangs.sock"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        provider = load_provider("docker", host=f"unix://{path}", engine_timeout_seconds=0.2)
        with pytest.raises(MissingError, match="does not answer"):
            await provider.check()
        await provider.aclose()


async def test_labels_of_castforms_own_cannot_be_asked_for():
    provider = load_provider("docker")
    with pytest.raises(UsageError, match=r"castform\.owner\.pid"):
        await provider.start(BoxRequest(labels={"castform.owner.pid": "1"}))
    await provider.aclose()


def test_folders_of_dead_owners_go_and_others_stay(tmp_path):
    labels = current_owner().labels()
    dead = {**labels, "castform.owner.start": "1"}
    for name, said in (("alive", labels), ("dead", dead)):
        (tmp_path / name).mkdir()
        (tmp_path / name / OWNER_FILE).write_text(json.dumps(said))
    (tmp_path / "unknown").mkdir()
    assert reap_folders(tmp_path) == ["dead"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["alive", "unknown"]
    assert reap_folders(tmp_path / "none") == []


def test_folders_that_somebody_else_could_have_put_there_are_left_alone(tmp_path):
    dead = {**current_owner().labels(), "castform.owner.start": "1"}
    root = make_folder(tmp_path / "boxes" / "one", dead).parent
    (tmp_path / "link").symlink_to(root)
    assert reap_folders(tmp_path / "link") == []
    root.chmod(0o777)
    assert reap_folders(root) == []
    root.chmod(0o700)
    assert reap_folders(root) == ["one"]


@pytest.mark.parametrize("folders", [{"freezer": Path("/gone/freezer")}, {"": Path("/gone/unified")}, {}])
def test_holding_a_box_still_that_is_gone_is_no_fault(folders):
    with Groups(folders=folders).frozen():
        assert Groups(folders=folders).pids() == []


def test_sockets_lie_in_a_folder_of_this_user_alone(tmp_path):
    made = make_folder(tmp_path / "mine" / "box", {"castform.owner.pid": "1"})
    assert (made.parent.stat().st_mode & 0o777, made.stat().st_mode & 0o777) == (0o700, 0o755)
    (tmp_path / "open").mkdir(mode=0o777)
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "link").symlink_to(tmp_path / "mine")
    for name in ("open", "link"):
        with pytest.raises(SandboxStartError, match="not this user's alone"):
            make_folder(tmp_path / name / "box", {})


def test_a_disk_that_refuses_the_sockets_folder_is_named(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(SandboxFileError, match="on this machine: Not a directory"):
        make_folder(tmp_path / "file" / "boxes" / "box", {})


async def test_what_an_engine_refuses_is_an_error_in_its_words(tmp_path):
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = (await reader.readuntil(b"\r\n\r\n")).split()[1]
        status, said = (b"200 OK", b'{"ApiVersion": "1.41"}')
        if not asked.endswith(b"/version"):
            status, said = (b"500 Internal Server Error", b'{"message": "the disk is full"}')
        size = str(len(said)).encode()
        writer.write(b"HTTP/1.1 " + status + b"\r\nContent-Type: application/json\r\nConnection: close\r\n")
        writer.write(b"Content-Length: " + size + b"\r\n\r\n" + said)
        writer.close()

    path = str(tmp_path / "refuses.sock")
    async with await asyncio.start_unix_server(refuse, path):
        provider = load_provider("docker", host=f"unix://{path}")
        for act in (provider.check, provider.reap, lambda: provider.measure_capacity(Limits())):
            with pytest.raises(SandboxError, match="refused: the disk is full"):
                await act()
        await provider.aclose()


@pytest.mark.docker  # needs no engine: `.ci/setup-docker` installs the programs
@pytest.mark.parametrize("program", PROGRAMS)
async def test_a_forwarder_passes_bytes_and_ends_of_streams_on(program, tmp_path):
    if shutil.which(program) is None:
        assert not os.environ.get("CI"), f"CI has {program}: `.ci/setup-docker` installs it"
        pytest.skip(f"no {program} here; `bash .ci/setup-docker` installs it")

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.read())[::-1])
        await writer.drain()
        writer.close()

    path = tmp_path / "model.sock"
    server = await asyncio.start_unix_server(answer, path)
    forwarder = await asyncio.create_subprocess_exec(
        *make_command(str(path), programs=(program,)), stdout=asyncio.subprocess.PIPE, start_new_session=True
    )
    try:
        port = int(await forwarder.stdout.readline())

        async def ask(data: bytes) -> bytes:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(data)
            writer.write_eof()
            try:
                return await reader.read()
            finally:
                writer.close()

        questions = [bytes([number]) * 300_000 + b"end" for number in range(4)]
        assert await asyncio.gather(*map(ask, questions)) == [data[::-1] for data in questions]
    finally:
        os.killpg(forwarder.pid, signal.SIGKILL)
        await forwarder.wait()
        server.close()
