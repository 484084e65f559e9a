"""The aiohttp session behind a ModelClient, imported only once a request is made."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import aiohttp

KEEPALIVE_SECONDS = 4.0
"""Idle connections live shorter than at any usual server, so that none is reused while it is being closed."""
CONNECT_SECONDS = 30.0


class HttpReply(NamedTuple):
    """Status, body, and the Retry-After header if there is one."""

    status: int
    body: bytes
    retry_after: str | None


class ReplyTooLargeError(ValueError):
    """A reply is larger than its reader takes."""


def is_loopback(host: str) -> bool:
    """Whether the host name or address is this machine's own."""
    return host in ("localhost", "::1") or host.startswith("127.")


class HttpPool:
    """Connections of one event loop, as many as there are requests at a time."""

    def __init__(self) -> None:
        import aiohttp

        self._connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEPALIVE_SECONDS)
        self._session = aiohttp.ClientSession(
            connector=self._connector, cookie_jar=aiohttp.DummyCookieJar(), raise_for_status=False
        )
        self._proxies: dict[tuple[str, str], str | None] = {}

    def _proxy_for(self, url: str) -> str | None:
        """Return the proxy that the environment variables name for the address; never one for this machine."""
        address = urlsplit(url)
        origin = (address.scheme, address.hostname or "")
        if origin not in self._proxies:
            from urllib.request import getproxies, proxy_bypass

            proxies = getproxies()
            local = is_loopback(origin[1]) or bool(proxy_bypass(address.netloc))
            self._proxies[origin] = None if local else proxies.get(origin[0])
        return self._proxies[origin]

    async def post(
        self,
        url: str,
        data: bytes,
        headers: Mapping[str, str],
        *,
        timeout_seconds: float | None,
        max_bytes: int | None = None,
    ) -> HttpReply:
        """Post JSON bytes and read the whole reply.

        ConnectionError: no connection, or it broke. TimeoutError: no whole reply in time.
        ReplyTooLargeError: the reply has more than `max_bytes`, and the rest was not read.
        """
        import aiohttp

        limit = aiohttp.ClientTimeout(total=timeout_seconds, sock_connect=CONNECT_SECONDS)
        try:
            async with self._session.post(
                url,
                data=data,
                headers={"Content-Type": "application/json", **headers},
                timeout=limit,
                allow_redirects=False,
                proxy=self._proxy_for(url),
            ) as response:
                body = await _read_body(response, max_bytes)
                return HttpReply(response.status, body, response.headers.get("Retry-After"))
        except (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError) as error:
            if isinstance(error, TimeoutError) and not isinstance(error, aiohttp.ConnectionTimeoutError):
                raise TimeoutError(f"no whole reply within {timeout_seconds} seconds") from error
            raise ConnectionError(str(error) or type(error).__name__) from error
        except TimeoutError as error:
            raise TimeoutError(f"no whole reply within {timeout_seconds} seconds") from error

    async def aclose(self) -> None:
        """Close every connection."""
        await self._session.close()

    def __del__(self) -> None:
        # An environment that nobody closed: let go without aiohttp's complaint on stderr.
        session = getattr(self, "_session", None)
        if session is not None and not session.closed:
            session.detach()
            with contextlib.suppress(RuntimeError):
                self._connector.__exit__(None, None, None)  # its only way to close that needs no loop


async def _read_body(response: aiohttp.ClientResponse, max_bytes: int | None) -> bytes:
    if max_bytes is None:
        return await response.read()
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > max_bytes:
            response.close()
            raise ReplyTooLargeError(
                f"the reply (HTTP {response.status}) has more than {max_bytes:,} bytes; the rest was not read"
            )
    return bytes(body)
