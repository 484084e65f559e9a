"""Files in and out of a box by the engine's archive calls: no program of the image is needed.

The engine confines paths to the box's root and never follows a link at their end. It does not see
what is mounted inside the box only, as /proc and /dev/shm.
"""

from __future__ import annotations

import contextlib
import io
import posixpath
import shutil
import tarfile
import tempfile
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from castform.sandbox.archive import ChunkReader, explain_local, pack_path, unpack
from castform.sandbox.errors import SandboxFileError, UsageError
from castform.sandbox.request import check_mode, check_path, check_size, check_user
from castform_sandbox_docker.life import Life

if TYPE_CHECKING:
    import docker

_FOLDER, _LINK, _OTHER = 1 << 31, 1 << 27, (1 << 26) | (1 << 25) | (1 << 24) | (1 << 21)
"""Bits of a mode as Go writes it: folder, link; device, pipe, socket, character device."""
_CHUNK = 1 << 18


class Files:
    """The files of one box."""

    def __init__(self, life: Life) -> None:
        self._life = life

    async def read(self, path: str, max_bytes: int) -> bytes:
        """Return a regular file's content, as `Sandbox.read_file` promises."""
        place = check_path(path)
        check_size("max_bytes", max_bytes)

        def work(client: docker.APIClient) -> bytes:
            chunks, status = client.get_archive(self._life.container_id, place, chunk_size=_CHUNK)
            with contextlib.closing(chunks):
                _check_regular(path, status, max_bytes)
                with tarfile.open(fileobj=ChunkReader(chunks), mode="r|") as archive:  # type: ignore[call-overload]  # only read() is used
                    member = archive.next()
                    content = archive.extractfile(member) if member is not None and member.isreg() else None
                    if content is None:
                        raise SandboxFileError(f"{path} is no regular file")
                    data: bytes = content.read(max_bytes + 1)
            if len(data) > max_bytes:
                raise _make_too_large(path, len(data), max_bytes)
            return data

        return await self._life.call(_as_file_error(path, work), path=path)

    async def write(self, path: str, data: bytes, *, mode: int, user: str | None) -> None:
        """Write a whole file, as `Sandbox.write_file` promises."""
        place = check_path(path)
        if posixpath.basename(place) in ("", ".", ".."):
            raise UsageError(f"{path!r} is no file's name")
        check_mode(mode)
        check_user(user)
        uid, gid = await self._find_ids(user)
        member = tarfile.TarInfo(place.lstrip("/"))
        member.mode, member.uid, member.gid, member.size = mode, uid, gid, len(data)
        archive = _pack(member, data)
        await self._life.call(lambda client: self._put(client, "/", archive), path=path)

    async def upload(self, source: Path, target: str) -> None:
        """Copy a file or a folder's content in, as `Sandbox.upload` promises."""
        place = check_path(target)

        def work(client: docker.APIClient) -> None:
            from docker.errors import NotFound

            with explain_local(source):
                is_folder = source.is_dir()
            if not is_folder:
                with pack_path(source, name=place.lstrip("/")) as archive:
                    self._put(client, "/", archive)
                return
            with pack_path(source) as archive:
                try:
                    self._put(client, place, archive)
                except NotFound:
                    self._put(client, "/", _pack_folder(place.lstrip("/")))
                    archive.seek(0)
                    self._put(client, place, archive)

        await self._life.call(work, path=target)

    async def download(self, source: str, target: Path, max_bytes: int) -> None:
        """Copy a file or a folder's content out, as `Sandbox.download` promises."""
        place = check_path(source)
        check_size("max_bytes", max_bytes)

        def work(client: docker.APIClient) -> None:
            chunks, status = client.get_archive(self._life.container_id, place, chunk_size=_CHUNK)
            with contextlib.closing(chunks):
                if status["mode"] & _FOLDER:
                    name = posixpath.basename(place) or "/"
                    unpack(ChunkReader(chunks), target, max_bytes=max_bytes, strip=name)
                    return
                _check_regular(source, status, max_bytes)
                with explain_local(target):
                    target.parent.mkdir(parents=True, exist_ok=True)
                    # Unpacked beside its place: the name in the archive is the box's, the one here the caller's.
                    beside = Path(tempfile.mkdtemp(dir=target.parent, prefix=".castform-"))
                try:
                    unpack(ChunkReader(chunks), beside, max_bytes=max_bytes)
                    with explain_local(target):
                        found = [
                            entry for entry in beside.iterdir() if entry.is_file() and not entry.is_symlink()
                        ]
                        if len(found) != 1:
                            raise SandboxFileError(f"{source} is no regular file")
                        found[0].replace(target)
                finally:
                    shutil.rmtree(beside, ignore_errors=True)

        await self._life.call(_as_file_error(source, work), path=source)

    def _put(self, client: docker.APIClient, folder: str, archive: bytes | IO[bytes]) -> None:
        """Unpack an archive in the box. The SDK's own call would let a file take a folder's place."""
        from docker.errors import APIError, create_api_error_from_http_exception
        from requests import HTTPError

        answer = client.put(
            f"{client.base_url}/v{client.api_version}/containers/{self._life.container_id}/archive",
            params={"path": folder, "noOverwriteDirNonDir": "1"},
            data=archive,
            timeout=client.timeout,
        )
        try:
            answer.raise_for_status()
        except HTTPError as error:
            assert issubclass(APIError, HTTPError)
            create_api_error_from_http_exception(error)

    async def _find_ids(self, user: str | None) -> tuple[int, int]:
        """Return the numbers of a user and of its group, by the box's own list of users."""
        if not user:
            return 0, 0
        name, _, group = user.partition(":")
        uid, gid = (int(name) if _is_id(name) else None), (int(group) if _is_id(group) else None)
        if uid is None or gid is None:
            found = await self._look_up("/etc/passwd", name, uid)
            if found is not None:
                uid, gid = int(found[2]), gid if gid is not None else int(found[3])
        if group and not _is_id(group):
            entry = await self._look_up("/etc/group", group, None)
            gid = int(entry[2]) if entry is not None else None
            if gid is None:
                raise UsageError(f"the box has no group {group!r}")
        if uid is None:
            raise UsageError(
                f"the box has no user {name!r}", hint="users are those of the image's /etc/passwd"
            )
        return uid, gid or 0

    async def _look_up(self, path: str, name: str, number: int | None) -> list[str] | None:
        text = (await self.read(path, 1 << 20)).decode("utf-8", "replace")
        for line in text.splitlines():
            fields = line.split(":")
            if len(fields) >= 4 and _is_id(fields[2]) and (fields[0] == name or fields[2] == str(number)):
                return fields if path != "/etc/passwd" or _is_id(fields[3]) else None
        return None


def _check_regular(path: str, status: dict[str, Any], max_bytes: int) -> None:  # Any: JSON of the engine
    mode = int(status["mode"])
    if mode & (_FOLDER | _LINK | _OTHER):
        kind = (
            "a folder"
            if mode & _FOLDER
            else f"a link to {status['linkTarget']}"
            if mode & _LINK
            else "a device"
        )
        raise SandboxFileError(f"{path} is {kind}, not a regular file")
    if int(status["size"]) > max_bytes:
        raise _make_too_large(path, int(status["size"]), max_bytes)


def _is_id(text: str) -> bool:
    """Say whether text that a program of the box may have written is a user's or a group's number."""
    return text.isascii() and text.isdigit() and len(text) < 11 and int(text) < (1 << 32) - 1


def _make_too_large(path: str, size: int, max_bytes: int) -> SandboxFileError:
    return SandboxFileError(
        f"{path} holds {size} bytes, more than the {max_bytes} that are read",
        hint="raise max_bytes, or ask for less",
    )


def _as_file_error(path: str, work: Any) -> Any:  # Any: a callable of any result, returned as it is
    """Let what is wrong with an archive be an error about the path."""

    def run(client: docker.APIClient) -> Any:  # Any: as above
        try:
            return work(client)
        except tarfile.TarError as error:
            raise SandboxFileError(f"{path} cannot be read: {error}") from error

    return run


def _pack_folder(name: str) -> bytes:
    member = tarfile.TarInfo(name)
    member.type, member.mode = tarfile.DIRTYPE, 0o755
    return _pack(member, b"")


def _pack(member: tarfile.TarInfo, data: bytes) -> bytes:
    member.mtime = int(time.time())
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()
