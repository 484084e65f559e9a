"""What the host keeps to itself and how limits are written: no box needed."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import sysconfig
from pathlib import Path

import castform_sandbox_bubblewrap
import pytest
from castform_sandbox_bubblewrap.base import make_base
from castform_sandbox_bubblewrap.first_process import _abandon, _spawn
from castform_sandbox_bubblewrap.groups import Groups, reap_groups, settings
from castform_sandbox_bubblewrap.machine import Machine
from castform_sandbox_bubblewrap.network import BoxNetwork, make_rules
from castform_sandbox_bubblewrap.place import make_place, read_start, reap_boxes
from castform_sandbox_bubblewrap.seccomp import make_filter

from castform.sandbox.contract import Limits, NetworkPolicy
from castform.sandbox.errors import SandboxGoneError, SandboxStartError, UsageError
from castform.sandbox.owner import current_owner

ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap needs Linux")


def test_the_base_has_no_secret_of_the_host(tmp_path: Path) -> None:
    etc = tmp_path / "host" / "etc"
    (etc / "ssh").mkdir(parents=True)
    (etc / "ssl" / "certs").mkdir(parents=True)
    (etc / "ssl" / "private").mkdir()
    (etc / "profile.d").mkdir()
    for name, text in {
        "shadow": "root:$6$hash:1::::::\n",
        "ssh/ssh_host_rsa_key": "key",
        "ssl/private/key.pem": "key",
        "ssl/certs/ca.pem": "public",
        "gitconfig": "token",
        "environment": "https_proxy=http://me:hash@proxy",
        "profile.d/work.sh": "export API_KEY=hash",
        "wgetrc": "http_password = hash",
        "profile": "plain",
        "services": "closed",
        "passwd": "root:x:0:0:Ann:/root:/bin/sh\nann:x:1000:1000:Ann:/home/ann:/bin/sh\nbin:x:2:2::/bin:/no\n",
        "group": "root:x:0:\nann:x:1000:\ndocker:x:120:ann\n",
    }.items():
        (etc / name).write_text(text)
    (etc / "services").chmod(0o600)
    root = tmp_path / "root"
    root.mkdir()
    make_base(root, owner=None, host=tmp_path / "host")
    found = {
        path.relative_to(root / "etc").as_posix()
        for path in (root / "etc").rglob("*")
        if path.is_file() and not path.is_symlink()
    }
    assert found == {
        "group",
        "hostname",
        "hosts",
        "passwd",
        "profile",
        "resolv.conf",
        "shadow",
        "ssl/certs/ca.pem",
    }
    everything = "".join((root / "etc" / name).read_text() for name in found)
    assert "hash" not in everything and "ann" not in everything.lower()
    assert "bin:x:2:2::/bin:/no" in everything


@ON_LINUX
def test_groups_of_dead_owners_are_removed_without_their_boxes_and_no_others(tmp_path: Path) -> None:
    groups = Groups(version=1, places={"pids": tmp_path, "cpu": tmp_path})
    (living,) = groups.make("bwrap-living", Limits(cpus=None, memory_mb=None, pids=None))
    _, pid, start, namespace = living.name.split(".")
    for name in ("bwrap-dead", "trial-7"):
        (tmp_path / f"{name}.{pid}.{int(start) - 1}.{namespace}").mkdir()
    others = [f"bwrap-elsewhere.{pid}.{int(start) - 1}.{int(namespace) + 1}", "bwrap-old", "docker"]
    for name in others:
        (tmp_path / name).mkdir()
    assert reap_groups(groups) == ["bwrap-dead", "trial-7"]
    assert {entry.name for entry in tmp_path.iterdir()} == {living.name, *others}


@ON_LINUX
def test_a_box_that_was_being_made_when_its_owner_died_is_reaped(tmp_path: Path) -> None:
    machine = Machine(
        bwrap="bwrap", first_id=None, count_ids=1, groups=None, mkfs="/bin/false", filtered=True
    )
    for name in ("boxes", "disks"):
        (tmp_path / name).mkdir()
    with pytest.raises(SandboxStartError, match="no disk can be made"):
        make_place(tmp_path, "bwrap-a", machine, tmp_path, 16)
    assert list((tmp_path / "disks").iterdir()) == []
    assert reap_boxes(tmp_path) == []
    record = tmp_path / "boxes" / "bwrap-a" / "box.json"
    dead = dataclasses.replace(current_owner(), start="1").labels()
    record.write_text(json.dumps({**json.loads(record.read_text()), "owner": dead}))
    assert reap_boxes(tmp_path) == ["bwrap-a"]
    assert list((tmp_path / "boxes").iterdir()) == []


@ON_LINUX
def test_no_process_is_killed_for_a_box_of_another_boot(tmp_path: Path) -> None:
    """Its numbers may be those of any process by now."""
    own = tmp_path / "boxes" / "bwrap-a"
    own.mkdir(parents=True)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        owner = dataclasses.replace(current_owner(), boot="another").labels()
        record = {"owner": owner, "pid": process.pid, "start": read_start(process.pid)}
        (own / "box.json").write_text(json.dumps(record))
        assert reap_boxes(tmp_path) == ["bwrap-a"]
        process.communicate(b"\n")
    assert process.returncode == 0


FILE_CALLS = """
import os, sys
sys.path.append(sys.argv[1])
from castform_sandbox_bubblewrap.inside import files, init

def list_loaded():
    return {line.split()[-1] for line in open("/proc/self/maps") if "/" in line}

before, source, target = list_loaded(), *sys.argv[2:]
archive = os.open(f"{target}.tar", os.O_RDWR | os.O_CREAT)
os.dup2(archive, 1)
codes = [files.serve("pack", {"source": source, "max_bytes": 1000})]
os.lseek(archive, 0, os.SEEK_SET)
os.dup2(archive, 0)
codes.append(files.serve("unpack", {"target": target}))
os.write(2, "\\n".join([repr(codes), *sorted(list_loaded() - before - {f"{target}.tar"})]).encode())
os._exit(0)
"""


@ON_LINUX
def test_files_are_handled_by_nothing_but_the_interpreters_own_library(tmp_path: Path) -> None:
    """Whatever else is loaded in a box comes from folders that its programs write to."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "file").write_text("text")
    folder = Path(castform_sandbox_bubblewrap.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-S", "-s", "-P", "-c", FILE_CALLS, folder, tmp_path / "in", tmp_path / "out"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    codes, *loaded = done.stderr.splitlines()
    assert codes == "[0, 0]" and (tmp_path / "out" / "file").read_text() == "text"
    standard = Path(sysconfig.get_path("stdlib")).resolve()
    assert [name for name in loaded if not Path(name).resolve().is_relative_to(standard)] == []


@pytest.mark.parametrize("version", [1, 2])
def test_limits_as_control_groups_write_them(version: int) -> None:
    limits = Limits(cpus=0.5, memory_mb=64, pids=10)
    expected = {
        1: [
            {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "50000"},
            {"memory.limit_in_bytes": "67108864", "memory.memsw.limit_in_bytes": "67108864"},
            {"pids.max": "10"},
        ],
        2: [
            {"cpu.max": "50000 100000"},
            {"memory.max": "67108864", "memory.swap.max": "0"},
            {"pids.max": "10"},
        ],
    }
    assert [settings(version, name, limits) for name in ("cpu", "memory", "pids")] == expected[version]
    assert settings(version, "memory", Limits(memory_mb=None)) == {}


def test_a_public_network_is_any_name_and_no_address() -> None:
    rules = make_rules(NetworkPolicy(mode="public"))
    assert rules.allows_name("example.org")
    assert not rules.networks
    assert not make_rules(NetworkPolicy()).allows_name("example.org")
    with pytest.raises(UsageError, match="not hosts"):
        make_rules(NetworkPolicy(mode="allowlist", allowed_hosts=("http://x",)))


@pytest.mark.parametrize(("machine", "refused", "allowed"), [("x86_64", 165, 0), ("aarch64", 40, 63)])
def test_the_filter_ends_in_allow_and_refuses_mount(machine: str, refused: int, allowed: int) -> None:
    assert run_filter(make_filter(machine), machine, refused) == 0x00050001
    assert run_filter(make_filter(machine), machine, allowed) == 0x7FFF0000
    ioctl = {"x86_64": 16, "aarch64": 29}[machine]
    assert run_filter(make_filter(machine), machine, ioctl, 0x5412) == 0x00050001
    assert run_filter(make_filter(machine), machine, ioctl, 0x5401) == 0x7FFF0000
    make_socket = {"x86_64": 41, "aarch64": 198}[machine]
    for family, answer in ((1, 0x7FFF0000), (2, 0x7FFF0000), (16, 0x7FFF0000), (40, 0x00050000 | 97)):
        assert run_filter(make_filter(machine), machine, make_socket, first=family) == answer
    assert run_filter(make_filter(machine), "i386", allowed) == 0x00050000 | 38


def run_filter(code: bytes, machine: str, number: int, second: int = 0, *, first: int = 0) -> int:
    """Return what the kernel would: the few instructions that the filter is made of."""
    audit = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7, "i386": 0x40000003}[machine]
    data = {0: number, 4: audit, 16: first, 24: second}
    program = list(struct.iter_unpack("=HBBI", code))
    place = loaded = 0
    while True:
        kind, if_true, if_false, value = program[place]
        place += 1
        if kind == 0x06:
            return int(value)
        if kind == 0x20:
            loaded = data[value]
        elif kind == 0x15:
            place += if_true if loaded == value else if_false
        else:
            assert kind == 0x35
            place += if_true if loaded >= value else if_false


async def test_policies_that_are_set_at_a_time_share_one_proxy():
    made = []

    async def listen():
        await asyncio.sleep(0)
        made.append(socket.create_server(("127.0.0.1", 0)))
        return made[-1], made[-1].getsockname()[1]

    network = BoxNetwork(listen)
    policies = [NetworkPolicy(mode="allowlist", allowed_hosts=(f"{name}.example",)) for name in "ab"]
    await asyncio.gather(*map(network.set_policy, policies))
    assert len(made) == 1 and f":{made[0].getsockname()[1]}" in network.env["HTTP_PROXY"]
    await network.aclose()


async def test_a_policy_that_is_set_while_the_box_closes_leaves_no_proxy():
    listening = socket.create_server(("127.0.0.1", 0))

    async def listen():
        await network.aclose()
        return listening, 1

    network = BoxNetwork(listen)
    with pytest.raises(SandboxGoneError):
        await network.set_policy(NetworkPolicy(mode="public"))
    assert listening.fileno() == -1


@ON_LINUX
async def test_a_start_that_is_given_up_takes_the_child_of_bwrap_along() -> None:
    """bwrap's child waits for a word of its parent's, which a parent that was killed never says."""
    end, start = os.pipe()
    with os.fdopen(end, "rb") as told, os.fdopen(start, "wb") as said:
        process = _spawn(["sh", "-c", "sleep 1000 & echo $! >&2; wait"], [], said)
        child = os.pidfd_open(int(told.readline()))
        spawning: asyncio.Future[subprocess.Popen[bytes]] = asyncio.get_running_loop().create_future()
        spawning.set_result(process)
        await _abandon(spawning)
    ended, _, _ = select.select([child], [], [], 30)
    os.close(child)
    assert ended == [child]
    assert process.returncode == -signal.SIGKILL
