"""How an environment's model requests are authorised."""

from __future__ import annotations

from benchmax.auth.injected import InjectedAuth, bind_model_auth
from benchmax.auth.providers import (
    ModelAuth,
    ModelRequestContext,
    StaticBearerAuth,
    check_model_auth,
    request_headers,
)

__all__ = [
    "InjectedAuth",
    "ModelAuth",
    "ModelRequestContext",
    "StaticBearerAuth",
    "bind_model_auth",
    "check_model_auth",
    "request_headers",
]
