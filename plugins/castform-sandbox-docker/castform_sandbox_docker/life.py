"""Whether a container is still there, and what to say when it is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from castform.sandbox.errors import MissingError, SandboxError, SandboxFileError, SandboxGoneError
from castform_sandbox_docker.engine import Engine
from castform_sandbox_docker.host_view import HostView

if TYPE_CHECKING:
    import docker

T = TypeVar("T")
_LOG_LINES = 20
_ABOUT_PATHS = (
    "cannot overwrite",
    "extraction point",
    "file name too long",
    "is a directory",
    "no such file",
    "not a directory",
    "permission denied",
    "symbolic links",
)
"""What an engine says of a path that cannot be had. Anything else that it says is its own trouble."""


class Life:
    """One started container."""

    def __init__(self, engine: Engine, container_id: str, name: str, view: HostView | None) -> None:
        self.engine = engine
        self.container_id = container_id
        self.name = name
        self.view = view
        self.reason: str | None = None
        """Why it is gone, once that is known."""

    def check(self) -> None:
        """Raise SandboxGoneError when it is known to be gone; asks nobody but the kernel."""
        if self.reason is not None:
            raise SandboxGoneError(f"the sandbox {self.name} is gone: {self.reason}")

    async def look(self) -> None:
        """Ask whether the container runs. SandboxGoneError, with what the engine says of its end."""
        self.check()
        if self.view is not None and self.view.is_running():
            return
        reason = await self._ask()
        if reason is not None:
            self.reason = self.reason or reason
        elif self.view is not None:  # the engine has not noticed yet
            self.reason = self.reason or "it was killed from outside"
        self.check()

    async def _ask(self) -> str | None:
        from docker.errors import APIError, NotFound

        try:
            said = await self.engine.call(lambda client: client.inspect_container(self.container_id))
        except NotFound:
            return "its container was removed from outside"
        except APIError as error:
            return f"the engine says {error.explanation}"
        except MissingError as error:
            if self.view is not None:
                return f"it was killed, and {error}"
            raise SandboxGoneError(f"the sandbox {self.name} is gone: {error}", hint=error.hint) from error
        state = said["State"]
        if state.get("Paused"):
            return "its container was paused from outside"
        if state.get("Running"):
            return None
        if state.get("OOMKilled"):
            return f"it ran out of the memory it may use (exit code {state.get('ExitCode')})"
        return f"its first process ended with exit code {state.get('ExitCode')}{await self._read_log()}"

    async def _read_log(self) -> str:
        from docker.errors import APIError

        try:
            log = await self.engine.call(
                lambda client: client.logs(self.container_id, stdout=True, stderr=True, tail=_LOG_LINES)
            )
        except (APIError, MissingError):
            return ""
        text = log.decode("utf-8", "replace").strip()[-1000:]
        return f"; it wrote: {text}" if text else ""

    async def call(self, work: Callable[[docker.APIClient], T], *, path: str | None = None) -> T:
        """Run `work` on the SDK's client; what means that the container or the engine is gone says so.

        With `path` a refusal that speaks of the path is SandboxFileError about it and any other is
        SandboxError; without they are the SDK's own.
        """
        from docker.errors import APIError

        self.check()
        try:
            return await self.engine.call(work)
        except MissingError as error:
            raise SandboxGoneError(f"the sandbox {self.name} is gone: {error}", hint=error.hint) from error
        except APIError as error:
            if error.response is not None and error.response.status_code in (404, 409, 500):
                await self.look()
            if path is None:
                raise
            if error.response is not None and error.response.status_code == 404:
                raise SandboxFileError(f"{path} does not exist in the box") from error
            said = str(error.explanation or error)
            if is_about_path(said, path):
                raise SandboxFileError(f"{path}: {said}") from error
            raise SandboxError(f"the Docker engine failed at {path}: {said}") from error

    async def end(self, reason: str) -> None:
        """Kill everything in the container and remember why."""
        from docker.errors import APIError

        self.reason = self.reason or reason
        if self.view is not None:
            self.view.kill_all()
            return
        try:
            await self.engine.call(lambda client: client.kill(self.container_id))
        except (APIError, MissingError):
            return  # it is gone already


def is_about_path(said: str, path: str) -> bool:
    """Say whether an engine's words are about a path of the box; what the path itself is called does not count."""
    words = said.replace(path, "").lower()
    return any(phrase in words for phrase in _ABOUT_PATHS)
