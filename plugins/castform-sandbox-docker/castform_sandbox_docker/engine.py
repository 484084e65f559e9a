"""The way to a Docker engine: the SDK's blocking calls in a few threads, and raw streams.

Running commands hold no thread: their streams are sockets of the event loop (`attach.py`).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from castform.sandbox.errors import MissingError, SandboxError, UsageError

if TYPE_CHECKING:
    import docker

T = TypeVar("T")
THREADS = 24
"""Calls to the engine at a time; more wait. It works on fewer than that in parallel anyway."""
DEFAULT_HOST = "unix:///var/run/docker.sock"


class Engine:
    """One engine. Made without touching it; `close` ends the threads."""

    def __init__(self, host: str | None, *, timeout_seconds: float) -> None:
        """`host`: as in DOCKER_HOST; None takes that variable, else the local socket. UsageError for ssh."""
        self.host = host or os.environ.get("DOCKER_HOST") or DEFAULT_HOST
        self.timeout_seconds = timeout_seconds
        self._parts = urlsplit(self.host)
        if self._parts.scheme not in ("unix", "tcp", "http", "https"):
            raise UsageError(
                f"the Docker engine's address {self.host!r} is neither unix:// nor tcp://",
                hint="forward the engine's socket (`ssh -L /tmp/engine.sock:/var/run/docker.sock HOST`) "
                "and name it: host = 'unix:///tmp/engine.sock'",
            )
        self._client: docker.APIClient | None = None
        self._connecting = threading.Lock()
        self._threads = ThreadPoolExecutor(max_workers=THREADS, thread_name_prefix="castform-docker")

    @property
    def socket_path(self) -> str | None:
        """Path of the engine's Unix socket; None for one across the network."""
        return self._parts.path if self._parts.scheme == "unix" else None

    @property
    def api_version(self) -> str:
        """Of the API that is spoken; after the first call."""
        assert self._client is not None
        return str(self._client.api_version)

    async def call(self, work: Callable[[docker.APIClient], T]) -> T:
        """Run `work` on the SDK's client in a thread. MissingError where the engine does not answer.

        Cancelled: the call goes on in its thread. Whoever makes something uses `teardown.finish`.
        """
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._run, work)

    def _run(self, work: Callable[[docker.APIClient], T]) -> T:
        import requests
        import urllib3
        from docker.errors import APIError, DockerException

        try:
            return work(self._connect())
        except APIError:
            raise
        except (requests.exceptions.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
            raise self.make_unreachable(error) from error
        except DockerException as error:
            raise self.make_unreachable(error) from error

    def _connect(self) -> docker.APIClient:
        with self._connecting:
            if self._client is None:
                import docker
                from docker.utils import kwargs_from_env

                tls = kwargs_from_env().get("tls") if self._parts.scheme != "unix" else None
                self._client = docker.APIClient(
                    base_url=self.host,
                    version="auto",
                    timeout=self.timeout_seconds,
                    tls=tls or False,
                    max_pool_size=THREADS,
                )
            return self._client

    def make_unreachable(self, error: BaseException) -> MissingError:
        """Return the error for an engine that does not answer."""
        return MissingError(
            f"the Docker engine at {self.host} does not answer: {describe_cause(error)}",
            hint="start it (`docker info` has to work), name another by DOCKER_HOST, or take the sandbox bubblewrap",
        )

    async def open_stream(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a connection of its own. MissingError where nobody listens."""
        limit = 1 << 18
        try:
            if self.socket_path is not None:
                return await asyncio.open_unix_connection(self.socket_path, limit=limit)
            return await asyncio.open_connection(
                self._parts.hostname, self._parts.port or 2375, limit=limit, ssl=self.make_ssl()
            )
        except OSError as error:
            raise self.make_unreachable(error) from error

    def make_ssl(self) -> ssl.SSLContext | None:
        """Return the context of an engine across the network with certificates, as DOCKER_CERT_PATH says."""
        if self._parts.scheme == "unix" or not (
            os.environ.get("DOCKER_TLS_VERIFY") or self._parts.scheme == "https"
        ):
            return None
        folder = Path(os.environ.get("DOCKER_CERT_PATH") or Path.home() / ".docker")
        context = ssl.create_default_context(cafile=str(folder / "ca.pem"))
        context.load_cert_chain(str(folder / "cert.pem"), str(folder / "key.pem"))
        return context

    @property
    def http_root(self) -> str:
        """Base of URLs for an HTTP client that is connected by `socket_path` or by the address."""
        if self.socket_path is not None:
            return "http://engine"
        return f"{'https' if self.make_ssl() else 'http'}://{self._parts.netloc}"

    def close(self) -> None:
        """End the threads when they have done what they are at."""
        if self._client is not None:
            self._client.close()
        self._threads.shutdown(wait=False)


@contextlib.contextmanager
def explain_engine() -> Iterator[None]:
    """Let what an engine refuses, of which nobody knows better what it means, be a SandboxError in its words."""
    from docker.errors import APIError

    try:
        yield
    except APIError as error:
        raise SandboxError(f"the Docker engine refused: {error.explanation or error}") from error


def describe_cause(error: BaseException) -> str:
    """Return why an engine could not be reached: what the operating system said, which libraries wrap in their own errors."""
    seen: list[BaseException] = [error]
    for found in seen:
        if isinstance(found, OSError) and found.strerror:
            return found.strerror
        inner = [*found.args, getattr(found, "reason", None), found.__cause__, found.__context__]
        seen += [item for item in inner if isinstance(item, BaseException) and item not in seen]
    return (str(error) or type(error).__name__)[:300]
