"""What no box can be asked for is a usage error that names the value, in every provider the same."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from castform.errors import UsageError
from castform.sandbox.contract import BoxRequest, ImageBuild, Limits, NetworkPolicy
from castform.sandbox.request import check_exec, check_mode, check_path, check_request, check_size, check_user

EXEC = {"cwd": None, "env": None, "user": None, "timeout_seconds": None, "max_output_bytes": 100}


@pytest.mark.parametrize(
    "fields",
    [
        *({"limits": Limits(cpus=value)} for value in (math.nan, math.inf, -1, 0, 1e9, "1", True)),
        *({"limits": Limits(memory_mb=value)} for value in (0, -1, 64.5, "64", 1 << 60, math.nan)),
        *({"limits": Limits(pids=value)} for value in (0, -5, 1 << 70)),
        *({"limits": Limits(disk_mb=value)} for value in (0, -1, math.nan, 1 << 50)),
        *({"workdir": value} for value in ("", "x", "/a\0", 5)),
        *({"env": value} for value in ({"": "x"}, {"A=B": "x"}, {"A": "\0"}, {"A": 1}, None, ["A"])),
        *({"user": value} for value in ("-1", "99999999999", "root\nx", "²", "a b", "a:", 0)),
        *({"image": value} for value in ("", "../containers", "a/../b", "a//b", "A B", "a\nb", "-x", 5)),
        {"image": ImageBuild(context="folder")},
        {"image": ImageBuild(context=Path(), dockerfile="\0")},
        *({"start_timeout_seconds": value} for value in (math.nan, "x", None)),
        *({"labels": value} for value in ({"castform.owner.pid": "1"}, {"a": 1}, {"": "b"}, {"a": "\0"})),
        {"network": NetworkPolicy(mode="bogus")},
        {"network": NetworkPolicy(mode="allowlist", allowed_hosts="example.org")},
        {"network": NetworkPolicy(mode="allowlist", allowed_hosts=(1,))},
    ],
    ids=lambda fields: ascii(fields).replace(" ", "")[:60],
)
def test_a_request_that_nobody_can_serve_is_a_usage_error(fields):
    with pytest.raises(UsageError):
        check_request(BoxRequest(**fields))


def test_requests_at_their_bounds_pass():
    check_request(BoxRequest())
    check_request(
        BoxRequest(
            image="registry.example:5000/team/image@sha256:abc",
            limits=Limits(cpus=0.01, memory_mb=1, pids=1, disk_mb=1),
            workdir="/a b/ü\n",
            env={"A.B-c": "x\ny=z"},
            user="1000:agents",
            start_timeout_seconds=math.inf,
            labels={"for": ""},
        )
    )


@pytest.mark.parametrize(
    ("command", "more"),
    [
        ([], {}),
        ([""], {}),
        ("ls -l", {}),
        (["ls", "\0"], {}),
        (["ls", 1], {}),
        (["ls"], {"cwd": "here"}),
        (["ls"], {"env": {"A=": "x"}}),
        (["ls"], {"user": "a b"}),
        (["ls"], {"timeout_seconds": math.nan}),
        (["ls"], {"timeout_seconds": "5"}),
        (["ls"], {"max_output_bytes": -1}),
    ],
)
def test_a_command_that_cannot_run_is_a_usage_error(command, more):
    with pytest.raises(UsageError):
        check_exec(command, **{**EXEC, **more})


def test_a_time_that_is_over_is_no_usage_error():
    check_exec(["ls"], **{**EXEC, "timeout_seconds": -1.0})


def test_paths_are_absolute_and_lose_slashes_at_their_end():
    assert [check_path(path) for path in ("/folder/", "/", "//a/")] == ["/folder", "/", "//a"]
    for act in (
        lambda: check_path("relative"),
        lambda: check_path("/a\0"),
        lambda: check_size("max_bytes", 1.5),
        lambda: check_mode(0o10000),
        lambda: check_user("a:b:c"),
    ):
        with pytest.raises(UsageError):
            act()
