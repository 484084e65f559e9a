"""The gateway as a castform Endpoint: sessions without HTTP, from any event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from castform.calls import ModelCall
from castform.endpoint import SessionGrant, SessionSpec
from castform.errors import UsageError
from castform_trainer.gateway.errors import ApiError
from castform_trainer.gateway.server import Gateway


class GatewayEndpoint:
    """Implements `castform.endpoint.Endpoint` on a started gateway."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self.model = gateway.model_name

    async def open_session(self, spec: SessionSpec) -> SessionGrant:
        """Open a session that lives until it is closed. UsageError when the id is in use."""
        try:
            return await self.gateway.submit(self.gateway.open_session(spec))
        except ApiError as error:
            raise UsageError(error.message) from error

    async def collect(self, session_id: str) -> Sequence[ModelCall]:
        """Return the session's calls so far. UsageError for an unknown id, RunFailedError when
        calls could not be recorded."""
        try:
            return await self.gateway.submit(self.gateway.collect(session_id))
        except ApiError as error:
            raise UsageError(error.message) from error

    async def close_session(self, session_id: str) -> None:
        """End the session; ending it twice is fine, also after `aclose`."""
        if not self.gateway.is_running:
            return
        await self.gateway.submit(self.gateway.close_session(session_id))

    async def aclose(self) -> None:
        """Close the gateway. The engine is left to whoever made it."""
        await asyncio.to_thread(self.gateway.close)
