"""What boxes of this provider do beside what every provider's boxes do."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from castform_sandbox_docker.container import KEPT_CAPABILITIES

from castform.sandbox import load_provider
from castform.sandbox.contract import BoxRequest, Limits, ModelEndpoint, NetworkPolicy, Sandbox
from castform.sandbox.errors import (
    ExecTimeoutError,
    SandboxFileError,
    SandboxGoneError,
    SandboxStartError,
    UsageError,
)

pytestmark = [pytest.mark.docker, pytest.mark.asyncio(loop_scope="module")]
BUSYBOX = "castform/busybox:local"
SMALL = Limits(cpus=1.0, memory_mb=256, pids=64, disk_mb=64)


def ask_engine(*words: str) -> str:
    return subprocess.run(["docker", *words], check=True, capture_output=True, text=True).stdout.strip()


def list_folders(name: str) -> list[Path]:
    return list(Path(tempfile.gettempdir()).glob(f"castform-docker-*/{name}"))


async def run(box: Sandbox, script: str, *arguments: str, **options) -> str:
    done = await box.exec(["sh", "-c", script, "sh", *arguments], **options)
    assert done.exit_code == 0, done
    return done.text.strip()


async def list_processes(box: Sandbox) -> list[str]:
    text = await run(box, 'for d in /proc/[0-9]*; do tr "\\0" " " <$d/cmdline; echo; done')
    return [line.strip() for line in text.splitlines() if line.strip()]


async def test_the_engine_shows_whose_box_it_is_and_the_labels_that_were_asked_for(box):
    labels = json.loads(ask_engine("inspect", "--format", "{{json .Config.Labels}}", box.id))
    assert labels["for"] == "tests"
    assert labels["castform.box"] == box.id
    assert labels["castform.owner.pid"].isdigit()


async def test_a_box_has_few_rights_and_gains_none(box, request):
    said = json.loads(ask_engine("inspect", "--format", "{{json .HostConfig}}", box.id))
    inside = "inside" in request.node.callspec.params.values()
    assert {name.removeprefix("CAP_") for name in said["CapAdd"]} == {
        *KEPT_CAPABILITIES,
        *(["SYS_PTRACE"] if inside else []),
    }
    assert said["Privileged"] is False
    status = await run(box, "cat /proc/self/status")
    assert "NoNewPrivs:\t1" in status
    assert "Seccomp:\t2" in status
    assert (await box.exec(["mknod", "/tmp/disk", "b", "8", "0"])).exit_code != 0
    assert (await box.exec(["mount", "-t", "tmpfs", "none", "/mnt"])).exit_code != 0
    assert (await box.exec(["chroot", "/", "true"])).exit_code != 0


async def test_a_file_is_not_written_beyond_the_disk_limit_even_for_a_moment(box):
    """By files with holes, which take up next to nothing: the watch over the whole has no part in it."""
    script = 'dd if=/dev/zero of=/tmp/large bs=1 count=1 seek="$1" conv=notrunc 2>/dev/null; echo $?; rm /tmp/large'
    last = await run(box, script, str((64 << 20) - 1))
    beyond = await run(box, script, str(64 << 20))
    assert (last, beyond == "0") == ("0", False)


async def test_killing_everything_inside_leaves_the_box(box):
    await box.exec(["sh", "-c", "kill -9 -1"])
    await box.exec(["sh", "-c", "kill -9 1; kill -TERM 1; kill -HUP 1"])
    assert await run(box, "echo here") == "here"


async def test_orphans_are_reaped(box):
    await run(box, "i=0; while [ $i -lt 20 ]; do (true &); i=$((i+1)); done")
    states = await run(box, "cat /proc/[0-9]*/stat")
    assert ") Z " not in states


async def test_a_daemon_that_left_its_session_and_cleared_its_environment_ends_with_its_command(box):
    before = await list_processes(box)
    with pytest.raises(ExecTimeoutError) as caught:
        await box.exec(
            ["sh", "-c", "echo begun; (env -i setsid sleep 4444 >/dev/null 2>&1 &); exec sleep 4445"],
            timeout_seconds=0.8,
        )
    assert caught.value.result.stdout == b"begun\n"
    assert [line for line in await list_processes(box) if line.startswith("sleep 444")] == []
    assert len(await list_processes(box)) == len(before)


async def test_what_an_earlier_command_left_stays_when_a_later_one_is_killed(box):
    await run(box, "(setsid sleep 3333 >/dev/null 2>&1 &)")
    with pytest.raises(ExecTimeoutError):
        await box.exec(["sleep", "3334"], timeout_seconds=0.3)
    assert "sleep 3333" in await list_processes(box)
    await box.end_processes()
    assert "sleep 3333" not in await list_processes(box)


async def test_a_server_that_goes_on_writing_lives_and_nobody_waits_for_it(box):
    done = await box.exec(["sh", "-c", "(sleep 1; echo late; touch /tmp/lived) & echo early"])
    assert done.stdout.startswith(b"early\n")
    assert done.seconds < 3.5
    assert (
        await run(box, "while ! test -e /tmp/lived; do sleep 0.1; done; echo yes", timeout_seconds=20)
        == "yes"
    )


async def test_a_command_that_closes_its_output_is_waited_for(box):
    done = await box.exec(["sh", "-c", "exec >&- 2>&-; sleep 0.7; exit 3"])
    assert done.exit_code == 3


async def test_memory_that_runs_out_is_told_from_a_kill(box):
    full = await box.exec(["python3", "-c", "held = b'x' * (400 << 20)"])
    assert (full.exit_code, full.out_of_memory) == (137, True)
    killed = await box.exec(["sh", "-c", "kill -9 $$"])
    assert (killed.exit_code, killed.out_of_memory) == (137, False)


async def test_unknown_folders_are_the_commands_fault_and_unknown_users_the_callers(box):
    for user in ("nobody-knows", "root:nobody-knows"):
        with pytest.raises(UsageError, match=r"cannot run commands as that user.*nobody-knows"):
            await box.exec(["true"], user=user)
    assert (await box.exec(["true"], cwd="/nowhere")).exit_code == 126
    with pytest.raises(UsageError, match="list of words"):
        await box.exec("true")
    with pytest.raises(UsageError, match="no user 'nobody-knows'"):
        await box.write_file("/tmp/theirs", b"", user="nobody-knows")


async def test_written_files_are_as_new_as_they_are(box):
    await box.write_file("/new/place/file", b"data", mode=0o640, user="daemon")
    assert await run(box, "stat -c '%a %U' /new/place/file") == "640 daemon"
    assert abs(int(await run(box, "stat -c %Y /new/place/file")) - int(await run(box, "date +%s"))) < 30


async def test_a_paused_or_removed_container_is_gone_and_says_so(provider):
    gone = await provider.start(BoxRequest(image=BUSYBOX, limits=SMALL))
    waiting = asyncio.create_task(gone.exec(["sleep", "60"]))
    while "sleep 60" not in await asyncio.to_thread(ask_engine, "top", gone.id):
        assert not waiting.done()
    await asyncio.to_thread(ask_engine, "rm", "--force", gone.id)
    with pytest.raises(SandboxGoneError):
        await waiting
    with pytest.raises(SandboxGoneError, match=r"removed from outside|killed|exit code 137"):
        await gone.exec(["true"])
    with pytest.raises(SandboxGoneError):
        await gone.read_file("/etc/passwd")
    await gone.close()


async def test_a_box_that_writes_too_much_is_ended_and_says_why(provider):
    writer = await provider.start(BoxRequest(image=BUSYBOX, limits=Limits(disk_mb=16)))
    with pytest.raises(SandboxGoneError, match="more than the 16 MiB of disk"):
        await writer.exec(
            ["sh", "-c", "for i in 1 2 3; do head -c 12000000 /dev/zero >/f$i; done; sleep 60"],
            timeout_seconds=60,
        )
    with pytest.raises(SandboxGoneError, match="more than the 16 MiB of disk"):
        await writer.exec(["true"])
    await writer.close()


async def test_deleted_files_that_are_held_open_count_as_disk(plain):
    writer = await plain.start(BoxRequest(image=BUSYBOX, limits=Limits(disk_mb=16)))
    hidden = (
        "exec 3>/f 4>/g; rm /f /g; head -c 12000000 /dev/zero >&3; head -c 12000000 /dev/zero >&4; sleep 60"
    )
    with pytest.raises(SandboxGoneError, match="more than the 16 MiB of disk"):
        await writer.exec(["sh", "-c", hidden], timeout_seconds=60)
    await writer.close()


MAPPER = """
import ctypes, os, time
libc = ctypes.CDLL(None)
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
for _ in range(3):
    with open("/big", "wb+") as file:
        file.write(b"x" * (12 << 20))
        file.flush()
        libc.mmap(None, 4096, 1, 1, file.fileno(), 0)
    os.unlink("/big")
time.sleep(60)
"""


async def test_deleted_files_that_are_only_mapped_count_as_disk(plain):
    writer = await plain.start(BoxRequest(limits=Limits(disk_mb=16)))
    with pytest.raises(SandboxGoneError, match="more than the 16 MiB of disk"):
        await writer.exec(["python3", "-c", MAPPER], timeout_seconds=60)
    await writer.close()


async def test_with_sockets_in_a_folder_a_cancelled_start_leaves_none_and_a_closed_box_no_stream(monkeypatch):
    own = tempfile.mkdtemp(prefix="c")  # other tests' boxes have folders too; a socket's path is short
    monkeypatch.setattr(tempfile, "tempdir", own)
    provider = load_provider("docker", outside_view=False)
    request = BoxRequest(limits=Limits(memory_mb=128, disk_mb=64))
    box = await provider.start(request)
    await box.connect(ModelEndpoint(base_url="http://127.0.0.1:9/v1", api_key="real", model="m"))
    [forwarder] = box._commands._running.values()
    await box.close()
    assert forwarder.attached._writer.is_closing()
    assert list_folders(box.id) == []
    for turns in (0, 4, 12, 30, 60):
        starting = asyncio.create_task(provider.start(request))
        for _ in range(turns):
            await asyncio.sleep(0.001)
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
    await provider.aclose()
    assert list_folders("castform-*") == []
    shutil.rmtree(own)


async def test_boxes_of_a_loop_that_has_ended_are_closed_by_another(nothing_is_left):
    made = []

    async def start() -> None:
        provider = load_provider("docker")
        policy = NetworkPolicy(mode="allowlist", allowed_hosts=("example.org",))
        box = await provider.start(BoxRequest(image=BUSYBOX, limits=SMALL, network=policy))
        await box.connect(ModelEndpoint(base_url="http://127.0.0.1:9/v1", api_key="real", model="m"))
        made.append(provider)

    await asyncio.to_thread(asyncio.run, start())
    await made[0].aclose()
    assert made[0]._slots.taken == 0


OWNER = """
import asyncio, os, signal
from castform.sandbox import load_provider
from castform.sandbox.contract import BoxRequest, NetworkPolicy

async def own():
    provider = load_provider("docker", endpoint="socket")
    box = await provider.start(BoxRequest(image="castform/busybox:local", network=NetworkPolicy(mode="public")))
    print(box.id, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(own())
"""


async def test_a_providers_first_start_clears_what_a_killed_run_left():
    owner = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", OWNER], capture_output=True, text=True
    )
    name = owner.stdout.strip()
    assert name.startswith("castform-")
    assert owner.returncode == -signal.SIGKILL, owner.stderr
    provider = load_provider("docker")
    box = await provider.start(BoxRequest(image=BUSYBOX, limits=SMALL))
    assert ask_engine("ps", "--all", "--quiet", "--filter", f"name={name}") == ""
    assert list_folders(name) == []
    await box.close()
    await provider.aclose()


async def test_sixteen_boxes_start_at_a_time_under_a_cap_that_counts_starting_ones():
    provider = load_provider("docker", max_boxes=12)
    request = BoxRequest(image=BUSYBOX, limits=Limits(cpus=0.5, memory_mb=32, pids=32, disk_mb=16))
    most = 0

    async def use(number: int) -> str:
        nonlocal most
        box = await provider.start(request)
        most = max(most, len(ask_engine("ps", "--quiet", "--filter", f"label=castform.box={box.id}").split()))
        text = (await box.exec(["sh", "-c", f"echo {number}"])).text
        await box.close()
        return text.strip()

    assert await asyncio.gather(*map(use, range(16))) == [str(number) for number in range(16)]
    assert most == 1
    await provider.aclose()


async def test_a_public_network_is_shared_and_goes_with_the_provider():
    provider = load_provider("docker")
    first, second = await asyncio.gather(
        *(
            provider.start(BoxRequest(image=BUSYBOX, limits=SMALL, network=NetworkPolicy(mode="public")))
            for _ in "12"
        )
    )
    assert any("public" in note for note in first.notes)
    names = {
        ask_engine("inspect", "--format", "{{json .NetworkSettings.Networks}}", box.id)
        for box in (first, second)
    }
    [name] = {key for text in names for key in json.loads(text)}
    assert "eth" in await run(first, "cat /proc/net/dev")
    await first.set_network(NetworkPolicy(mode="none"))
    assert "eth" not in await run(first, "cat /proc/net/dev")
    await first.set_network(NetworkPolicy(mode="public"))
    assert "eth" in await run(first, "cat /proc/net/dev")
    await provider.aclose()
    assert name not in ask_engine("network", "ls", "--format", "{{.Name}}").split()


async def test_capacity_says_what_bounds_it_and_how_many_networks_are_left():
    provider = load_provider("docker", max_boxes=3)
    fits = await provider.measure_capacity(Limits(cpus=1.0, memory_mb=1 << 30, disk_mb=None))
    assert (fits.boxes, fits.networks) == (0, None)
    assert "MiB of memory" in fits.reason
    assert "more networks" in fits.reason
    assert (await provider.measure_capacity(Limits(cpus=0.01, memory_mb=1, disk_mb=None))).boxes == 3
    await provider.aclose()


async def test_a_box_that_goes_wrong_as_it_starts_leaves_nothing(plain):
    before = ask_engine("ps", "--all", "--quiet", "--filter", "label=for=failing")
    request = BoxRequest(
        image=BUSYBOX,
        limits=SMALL,
        labels={"for": "failing"},
        network=NetworkPolicy(mode="allowlist", allowed_hosts=("not a host",)),
    )
    with pytest.raises(UsageError):
        await plain.start(request)
    assert ask_engine("ps", "--all", "--quiet", "--filter", "label=for=failing") == before == ""


async def test_what_fails_on_this_machine_is_no_fault_of_the_engine(plain, tmp_path):
    (tmp_path / "file").write_text("in the way")
    box = await plain.start(BoxRequest(image=BUSYBOX, limits=SMALL))
    for source in ("/etc/passwd", "/etc"):
        with pytest.raises(SandboxFileError, match="on this machine"):
            await box.download(source, tmp_path / "file" / "below")
    assert await run(box, "echo here") == "here"
    await box.close()


async def test_a_list_of_users_that_the_box_made_up_is_only_no_user(plain):
    box = await plain.start(BoxRequest(image=BUSYBOX, limits=SMALL))
    for number in ("\N{SUPERSCRIPT TWO}", "9" * 5000, "4294967295"):
        text = f"root:x:0:0::/:/bin/sh\nmade:x:{number}:0::/:/bin/sh\n"
        await box.write_file("/etc/passwd", text.encode())
        with pytest.raises(UsageError, match="no user 'made'"):
            await box.write_file("/file", b"", user="made")
    await box.close()


async def test_closing_the_provider_ends_a_start_and_leaves_nothing():
    provider = load_provider("docker")
    labels = {"for": "closing"}
    starting = asyncio.create_task(provider.start(BoxRequest(image=BUSYBOX, limits=SMALL, labels=labels)))
    await asyncio.sleep(0)
    await provider.aclose()
    with pytest.raises(SandboxStartError, match="the provider is closed"):
        await starting
    with pytest.raises(SandboxStartError, match="the provider is closed"):
        await provider.start(BoxRequest(image=BUSYBOX, limits=SMALL, labels=labels))
    assert ask_engine("ps", "--all", "--quiet", "--filter", "label=for=closing") == ""
    await provider.aclose()


async def test_many_calls_at_a_time_do_not_clutter_the_log(caplog):
    provider = load_provider("docker")
    limits = Limits(cpus=0.01, memory_mb=1, disk_mb=None)
    await asyncio.gather(*(provider.measure_capacity(limits) for _ in range(24)))
    assert caplog.messages == []
    await provider.aclose()


async def test_a_box_that_forks_without_end_gives_its_files_and_lives_on(plain):
    bomb = "import os\nif os.fork(): os._exit(0)\nwhile True:\n try: os.fork()\n except OSError: pass"
    box = await plain.start(BoxRequest(limits=SMALL))
    await run(box, 'echo 42 > /answer; exec python3 -c "$1" >/dev/null 2>&1', bomb)
    assert await box.read_file("/answer") == b"42\n"
    await box.end_processes()
    assert await run(box, "echo here") == "here"
    await box.close()
