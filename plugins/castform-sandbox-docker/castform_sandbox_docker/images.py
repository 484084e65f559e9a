"""Images: named, fetched where they are missing, or built once from a folder's content."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Mapping
from typing import IO, TYPE_CHECKING, Any

from castform.sandbox.archive import explain_local
from castform.sandbox.contract import ImageBuild
from castform.sandbox.errors import SandboxBuildError, SandboxStartError, UsageError
from castform.sandbox.images import check_build, hash_build, lock_across_processes
from castform.sandbox.output import TailBuffer
from castform_sandbox_docker.config import DockerConfig
from castform_sandbox_docker.engine import Engine

if TYPE_CHECKING:
    import aiohttp
    import docker

LOCAL_IMAGE = "castform/base:local"
FALLBACK_IMAGE = "debian:bookworm-slim"
REPOSITORY = "castform/build"
_NOT_FETCHED = ("registry", "pull access denied", "manifest", "no such host", "dial tcp", "i/o timeout")
_TAIL_BYTES = 4000
_IN_MEMORY = 8 << 20
_CPU_PERIOD = 100_000

Image = Mapping[str, Any]
"""What the engine says of an image; Any: JSON."""


async def find_image(engine: Engine, wanted: str | ImageBuild | None, config: DockerConfig) -> Image:
    """Return an image, fetched or built when it has to be.

    SandboxBuildError with the tail of a build's output; SandboxStartError for an image that is
    neither here nor to be had.
    """
    if isinstance(wanted, ImageBuild):
        return await _build_once(engine, wanted, config)
    if wanted is not None:
        return await _get_or_pull(engine, wanted, config)
    if config.image is not None:
        return await _get_or_pull(engine, config.image, config)
    return await inspect_image(engine, LOCAL_IMAGE) or await _get_or_pull(engine, FALLBACK_IMAGE, config)


async def inspect_image(engine: Engine, name: str) -> Image | None:
    """Return what the engine says of an image; None where it has none of that name."""
    from docker.errors import APIError, ImageNotFound

    try:
        said: Image = await engine.call(lambda client: client.inspect_image(name))
    except ImageNotFound:
        return None
    except APIError as error:
        raise UsageError(f"{name!r} is no image: {error.explanation}") from error
    return said


async def _get_or_pull(engine: Engine, name: str, config: DockerConfig) -> Image:
    found = await inspect_image(engine, name)
    if found is not None:
        return found
    hint = "build it, load it (`docker load`), or name one that `docker image ls` shows; bubblewrap needs no images"
    if config.pull == "never":
        raise SandboxStartError(f"the engine has no image {name}, and pull is 'never'", hint=hint)
    from docker.errors import APIError

    try:
        await engine.call(lambda client: _pull(client, name))
    except APIError as error:
        raise SandboxStartError(
            f"the image {name} cannot be fetched: {error.explanation}", hint=hint
        ) from error
    found = await inspect_image(engine, name)
    if found is None:
        raise SandboxStartError(f"the image {name} cannot be fetched", hint=hint)
    return found


def _pull(client: docker.APIClient, name: str) -> None:
    from docker.errors import APIError
    from docker.utils import parse_repository_tag

    repository, tag = parse_repository_tag(name)
    for line in client.pull(repository, tag=tag or "latest", stream=True, decode=True):
        if "error" in line:
            raise APIError(line["error"], explanation=line["error"])


async def _build_once(engine: Engine, build: ImageBuild, config: DockerConfig) -> Image:
    check_build(build)
    paths = await asyncio.to_thread(list_context, build)
    digest = await asyncio.to_thread(
        lambda: hash_build(build, paths=paths, salt=f"network {config.build_network}")
    )
    tag = f"{REPOSITORY}:{digest}"
    async with lock_across_processes(f"docker {engine.host} {tag}"):
        found = await inspect_image(engine, tag)
        if found is not None:
            return found
        with tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY) as archive:
            with explain_local(build.context):
                await asyncio.to_thread(_pack, build, paths, archive)
            await _build(engine, build, tag, archive, config)
        found = await inspect_image(engine, tag)
    if found is None:
        raise SandboxBuildError(f"the image of {build.context} was built and is not there")
    return found


def list_context(build: ImageBuild) -> list[str]:
    """Return what of a folder goes into a build, relative to it: all that its .dockerignore leaves."""
    from docker.utils import exclude_paths

    ignored = build.context / ".dockerignore"
    lines = ignored.read_text("utf-8", "replace").splitlines() if ignored.is_file() else []
    patterns = [line.strip() for line in lines if line.strip() and not line.strip().startswith("#")]
    return sorted(exclude_paths(str(build.context), patterns, dockerfile=build.dockerfile))


def _pack(build: ImageBuild, paths: list[str], archive: IO[bytes]) -> None:
    from docker.utils.build import create_archive

    create_archive(root=str(build.context), files=sorted({*paths, build.dockerfile}), fileobj=archive)
    archive.seek(0)


async def _build(
    engine: Engine, build: ImageBuild, tag: str, archive: IO[bytes], config: DockerConfig
) -> None:
    import aiohttp

    memory = config.build_memory_mb << 20
    options: dict[str, str] = {
        "t": tag,
        "dockerfile": build.dockerfile,
        "rm": "1",
        "forcerm": "1",
        "memory": str(memory),
        "memswap": str(memory),
        "labels": json.dumps({"castform.build": tag}),
    }
    if not config.build_network:
        options["networkmode"] = "none"
    kept = TailBuffer(_TAIL_BYTES)
    connector = _make_connector(engine)
    try:
        async with (
            aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=None)) as session,
            session.post(
                f"{engine.http_root}/v{engine.api_version}/build",
                params=options,
                data=archive,
                headers={"Content-Type": "application/x-tar"},
            ) as answer,
        ):
            fault = None
            if answer.status != 200:
                fault = (await answer.text())[:2000]
            async for line in _read_lines(answer.content):
                said = json.loads(line)
                kept.add(str(said.get("stream") or said.get("status") or "").encode())
                fault = said.get("error") or fault
    except (aiohttp.ClientError, OSError) as error:
        raise engine.make_unreachable(error) from error
    if fault is not None:
        raise SandboxBuildError(
            f"the image of {build.context} could not be built: {fault}\n{kept.tail.decode('utf-8', 'replace')}".rstrip(),
            hint=describe_way_out(fault, build),
        )


async def _read_lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Yield lines of any length: what a RUN line writes without a line's end is one."""
    rest = bytearray()
    async for chunk in content.iter_any():
        rest += chunk
        if b"\n" in chunk:
            *lines, last = bytes(rest).split(b"\n")
            rest = bytearray(last)
            for line in lines:
                if line.strip():
                    yield line
    if rest.strip():
        yield bytes(rest)


def describe_way_out(fault: str, build: ImageBuild) -> str:
    """Return what to do about a build that failed with `fault`, an engine's own words."""
    if any(words in fault.lower() for words in _NOT_FETCHED):
        return "FROM names an image that the engine has to fetch: load it (`docker load`), or name one that is there"
    return f"`docker build -f {build.dockerfile} {build.context}` shows the whole of it"


def _make_connector(engine: Engine) -> aiohttp.BaseConnector:
    import aiohttp

    if engine.socket_path is not None:
        return aiohttp.UnixConnector(path=engine.socket_path)
    return aiohttp.TCPConnector(ssl=engine.make_ssl() or True)
