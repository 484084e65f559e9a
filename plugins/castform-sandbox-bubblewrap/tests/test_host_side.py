"""What the host keeps to itself and how limits are written: no box needed."""

from __future__ import annotations

import asyncio
import socket
import struct
from pathlib import Path

import pytest
from castform_sandbox_bubblewrap.base import make_base
from castform_sandbox_bubblewrap.groups import settings
from castform_sandbox_bubblewrap.network import BoxNetwork, make_rules
from castform_sandbox_bubblewrap.seccomp import make_filter

from castform.sandbox.contract import Limits, NetworkPolicy
from castform.sandbox.errors import SandboxGoneError, UsageError


def test_the_base_has_no_secret_of_the_host(tmp_path: Path) -> None:
    etc = tmp_path / "host" / "etc"
    (etc / "ssh").mkdir(parents=True)
    (etc / "ssl" / "certs").mkdir(parents=True)
    (etc / "ssl" / "private").mkdir()
    for name, text in {
        "shadow": "root:$6$hash:1::::::\n",
        "ssh/ssh_host_rsa_key": "key",
        "ssl/private/key.pem": "key",
        "ssl/certs/ca.pem": "public",
        "gitconfig": "token",
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
