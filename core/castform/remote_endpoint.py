"""Any OpenAI-compatible server as an Endpoint, without sessions and without token ids.

The server keeps no record for us: `collect` is empty, and `castform.rollouts` builds the
calls from what the environment's client saw.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from castform.calls import ModelCall
from castform.endpoint import SessionGrant, SessionSpec
from castform.errors import UsageError


class RemoteEndpoint:
    """A server at `base_url` (ending in /v1, as a rule) that serves `model`.

    `temperature` and `max_tokens` are sent with each chat request that does not name its own;
    unset, the server's defaults hold. What a session's sampling says is not sent: such a server
    cannot be made to obey it.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str,
        model: str,
        *,
        temperature: float | None = None,
        max_tokens: int | None = None,
    ) -> None:
        _check_url(base_url)
        self.model = model
        self._base_url = base_url.rstrip("/")
        self._api_key = api_key or "none"  # clients insist on a key, local servers ignore it
        self._fields: Mapping[str, Any] = {
            name: value
            for name, value in (("temperature", temperature), ("max_tokens", max_tokens))
            if value is not None
        }

    async def open_session(self, spec: SessionSpec) -> SessionGrant:
        return SessionGrant(
            base_url=self._base_url, api_key=self._api_key, model=self.model, request_fields=self._fields
        )

    async def collect(self, session_id: str) -> Sequence[ModelCall]:
        return ()

    async def close_session(self, session_id: str) -> None:
        return None

    async def aclose(self) -> None:
        return None


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        is_server = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is none, an address without its bracket
        is_server = False
    if "@" in url.partition("://")[2].partition("/")[0]:  # the URL is shown and stored, a key never
        raise UsageError(
            "--base-url holds a user name or password",
            hint="put the key into an environment variable and name it with --api-key-env",
        )
    if not is_server:
        raise UsageError(
            f"{url!r} is not the URL of a server", hint="for example --base-url http://127.0.0.1:8000/v1"
        )
