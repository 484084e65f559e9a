"""Images that are built, and what of an image is run."""

from __future__ import annotations

import asyncio
import subprocess
import time

import pytest

from castform.sandbox import load_provider
from castform.sandbox.contract import BoxRequest, ImageBuild, Limits, Sandbox
from castform.sandbox.errors import (
    SandboxBuildError,
    SandboxStartError,
)

pytestmark = [pytest.mark.docker, pytest.mark.asyncio(loop_scope="module")]
BUSYBOX = "castform/busybox:local"
SMALL = Limits(cpus=1.0, memory_mb=256, pids=64, disk_mb=64)


def ask_engine(*words: str) -> str:
    return subprocess.run(["docker", *words], check=True, capture_output=True, text=True).stdout.strip()


def wait_until_ended(word: str) -> None:
    """Return once no container has a word in its command; the test's own time limit bounds it."""
    while word in ask_engine("ps", "--all", "--no-trunc", "--format", "{{.Command}}"):
        time.sleep(0.1)


async def list_processes(box: Sandbox) -> list[str]:
    text = await run(box, 'for d in /proc/[0-9]*; do tr "\\0" " " <$d/cmdline; echo; done')
    return [line.strip() for line in text.splitlines() if line.strip()]


async def run(box: Sandbox, script: str, *arguments: str, **options) -> str:
    done = await box.exec(["sh", "-c", script, "sh", *arguments], **options)
    assert done.exit_code == 0, done
    return done.text.strip()


async def test_an_entrypoint_runs_only_where_it_is_asked_for(provider, tmp_path):
    (tmp_path / "Dockerfile").write_text(
        f'FROM {BUSYBOX}\nENV WHO=image\nWORKDIR /home\nENTRYPOINT ["sh", "-c", "echo ran >/ran; exec \\"$@\\"", "sh"]\n'
        'CMD ["false"]\n'
    )
    wanted = ImageBuild(context=tmp_path)
    plain = await provider.start(BoxRequest(image=wanted, limits=SMALL))
    kept = await provider.start(BoxRequest(image=wanted, limits=SMALL, keep_entrypoint=True))
    assert (await plain.exec(["cat", "/ran"])).exit_code == 1
    assert await run(kept, "cat /ran; pwd; echo $WHO") == "ran\n/home\nimage"
    await run(
        kept, "i=0; while [ $i -lt 5 ]; do (true &); i=$((i+1)); done; (setsid sleep 2222 >/dev/null 2>&1 &)"
    )
    await kept.end_processes()
    assert "sleep 2222" not in await list_processes(kept)
    assert "sleep infinity" in await list_processes(kept)
    await asyncio.gather(plain.close(), kept.close())


async def test_an_image_without_a_shell_is_named_with_a_hint(plain, tmp_path):
    (tmp_path / "Dockerfile").write_text("FROM scratch\nCOPY file /file\n")
    (tmp_path / "file").write_text("alone")
    with pytest.raises(SandboxStartError) as caught:
        await plain.start(BoxRequest(image=ImageBuild(context=tmp_path)))
    assert caught.value.hint is not None
    assert "/bin/sh" in caught.value.hint


async def test_an_image_is_built_of_what_the_dockerignore_leaves_and_only_once(plain, tmp_path):
    (tmp_path / "Dockerfile").write_text(
        f"FROM {BUSYBOX}\nCOPY . /copied\nRUN head -c 8 /dev/urandom | md5sum >/made\n"
    )
    (tmp_path / ".dockerignore").write_text("# not these\nsecret*\n!secret-but-kept\n")
    for name in ("seen", "secret", "secret-but-kept"):
        (tmp_path / name).write_text(name)
    wanted = BoxRequest(image=ImageBuild(context=tmp_path), limits=SMALL)
    other = load_provider("docker")
    first, second = await asyncio.gather(plain.start(wanted), other.start(wanted))
    assert await run(first, "cd /copied; ls") == "Dockerfile\nsecret-but-kept\nseen"
    assert await run(first, "cat /made") == await run(second, "cat /made")
    (tmp_path / "secret").write_text("changed, and not part of it")
    third = await plain.start(wanted)
    assert await run(third, "cat /made") == await run(first, "cat /made")
    await asyncio.gather(*(box.close() for box in (first, second, third)))
    await other.aclose()


async def test_a_build_that_takes_too_long_leaves_nothing(plain, tmp_path):
    (tmp_path / "Dockerfile").write_text(f"FROM {BUSYBOX}\nRUN echo 1357924680; sleep 300\n")
    with pytest.raises(SandboxStartError, match="not built and started within"):
        await plain.start(BoxRequest(image=ImageBuild(context=tmp_path), start_timeout_seconds=4))
    await asyncio.to_thread(wait_until_ended, "1357924680")  # the engine notices that nobody waits for it


async def test_a_build_that_fails_shows_what_it_wrote(plain, tmp_path):
    (tmp_path / "Dockerfile").write_text(f"FROM {BUSYBOX}\nRUN echo the reason stands here; exit 9\n")
    with pytest.raises(SandboxBuildError, match=r"(?s)code: 9.*the reason stands here"):
        await plain.start(BoxRequest(image=ImageBuild(context=tmp_path)))


async def test_a_build_that_writes_a_very_long_line_is_built(plain, tmp_path):
    noise = "head -c 600000 /dev/zero"
    (tmp_path / "Dockerfile").write_text(f"FROM {BUSYBOX}\nRUN {noise}; {noise} >&2; touch /built\n")
    box = await plain.start(BoxRequest(image=ImageBuild(context=tmp_path), limits=SMALL))
    assert await run(box, "ls /built") == "/built"
    await box.close()
