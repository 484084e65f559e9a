"""The OpenAI-compatible endpoint that records the exact tokens behind every call."""

from __future__ import annotations

from castform_trainer.gateway.endpoint import GatewayEndpoint
from castform_trainer.gateway.server import Gateway

__all__ = ["Gateway", "GatewayEndpoint"]
