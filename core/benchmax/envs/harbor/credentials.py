"""Keys of sandbox services, and the time during which they stand in this process's environment.

Harbor's clients of those services read `os.environ`. Trials with equal keys share it, others wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import Future, InvalidStateError
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field


class SandboxCredentials:
    """What all credentials answer."""

    provider: str | None = None
    """The service that they are for; None: any."""

    def host_environment(self) -> dict[str, str]:
        """Return the environment variables that the service's client reads."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class ModalCredentials(SandboxCredentials):
    provider: str = field(default="modal", init=False, repr=False)
    token_id: str = field(repr=False)
    token_secret: str = field(repr=False)
    max_throttle_wait_seconds: int = 60

    def __post_init__(self) -> None:
        check_secret("token_id", self.token_id)
        check_secret("token_secret", self.token_secret)
        wait = self.max_throttle_wait_seconds
        if isinstance(wait, bool) or not isinstance(wait, int) or wait < 0:
            raise ValueError(f"max_throttle_wait_seconds must be an integer of at least 0, not {wait!r}")

    def host_environment(self) -> dict[str, str]:
        return {
            "MODAL_TOKEN_ID": self.token_id,
            "MODAL_TOKEN_SECRET": self.token_secret,
            "MODAL_MAX_THROTTLE_WAIT": str(self.max_throttle_wait_seconds),
        }


@dataclass(frozen=True, kw_only=True)
class DaytonaCredentials(SandboxCredentials):
    """An API key, or a JWT with its organisation."""

    provider: str = field(default="daytona", init=False, repr=False)
    api_key: str | None = field(default=None, repr=False)
    jwt_token: str | None = field(default=None, repr=False)
    organization_id: str | None = field(default=None, repr=False)
    target: str | None = None

    def __post_init__(self) -> None:
        if (self.api_key is None) == (self.jwt_token is None):
            raise ValueError("Daytona takes api_key, or jwt_token with organization_id")
        if (self.jwt_token is None) != (self.organization_id is None):
            raise ValueError("jwt_token and organization_id belong together")
        for name in ("api_key", "jwt_token", "organization_id", "target"):
            if getattr(self, name) is not None:
                check_secret(name, getattr(self, name))

    def host_environment(self) -> dict[str, str]:
        named = {
            "DAYTONA_API_KEY": self.api_key,
            "DAYTONA_JWT_TOKEN": self.jwt_token,
            "DAYTONA_ORGANIZATION_ID": self.organization_id,
            "DAYTONA_TARGET": self.target,
        }
        return {name: value for name, value in named.items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class CustomSandboxCredentials(SandboxCredentials):
    """Variables of any other service."""

    values: Mapping[str, str] = field(repr=False)
    provider: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.values, Mapping) or not self.values:
            raise ValueError("values must map at least one environment variable to its value")
        for name, value in self.values.items():
            if not isinstance(name, str) or not name or "=" in name or "\0" in name:
                raise ValueError(f"{name!r} is no name of an environment variable")
            check_secret(name, value)
        object.__setattr__(self, "values", dict(self.values))

    def host_environment(self) -> dict[str, str]:
        return dict(self.values)


def check_secret(name: str, value: object) -> None:
    """ValueError, which does not show the value, unless it is text with something in it."""
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise ValueError(f"{name} must be a non-empty string")


class _ProcessEnvironment:
    """Who uses which variables now. Any thread and any event loop may ask; a lock guards the few lines."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._current: dict[str, str] = {}
        self._users = 0
        self._before: dict[str, str | None] = {}
        self._waiting: list[Future[None]] = []

    def try_enter(self, wanted: dict[str, str]) -> Future[None] | None:
        """Set the variables and return None, or return what is done when it is worth trying again."""
        with self._lock:
            if self._users and self._current != wanted:
                waiting: Future[None] = Future()
                self._waiting.append(waiting)
                return waiting
            if not self._users:
                self._before = {name: os.environ.get(name) for name in wanted}
                self._current = wanted
                os.environ.update(wanted)
            self._users += 1
            return None

    def leave(self) -> None:
        """Put the former values back once the last user is gone, and wake those that wait."""
        with self._lock:
            self._users -= 1
            if self._users:
                return
            for name, value in self._before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value
            self._current, self._before = {}, {}
            waiting, self._waiting = self._waiting, []
        for one in waiting:
            with contextlib.suppress(InvalidStateError):  # who waited was cancelled, in any thread
                one.set_result(None)


_PROCESS = _ProcessEnvironment()
_HELD: ContextVar[dict[str, str] | None] = ContextVar("benchmax_sandbox_credentials", default=None)


@asynccontextmanager
async def sandbox_credentials_scope(credentials: SandboxCredentials | None) -> AsyncIterator[None]:
    """Let the credentials stand in `os.environ` while the body runs, then put back what was there.

    Waits while others with different values run. RuntimeError inside a scope of different ones,
    which would wait for itself.
    """
    if credentials is None:
        yield
        return
    wanted = credentials.host_environment()
    held = _HELD.get()
    if held is not None and held != wanted:
        raise RuntimeError("other sandbox credentials are in force around this; they cannot be nested")
    while (waiting := _PROCESS.try_enter(wanted)) is not None:
        await asyncio.wrap_future(waiting)
    token = _HELD.set(wanted)
    try:
        yield
    finally:
        _HELD.reset(token)
        _PROCESS.leave()
