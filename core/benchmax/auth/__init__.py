"""How an environment's model requests are authorised.

What needs httpx or the OpenAI SDK is imported when it is first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from benchmax.auth.injected import InjectedAuth, bind_model_auth
from benchmax.auth.providers import (
    ModelAuth,
    ModelRequestContext,
    StaticBearerAuth,
    check_model_auth,
    request_headers,
)

if TYPE_CHECKING:
    from benchmax.auth.http_auth import RequestModelAuth
    from benchmax.auth.openai_clients import create_async_openai_client, create_openai_client

__all__ = [
    "InjectedAuth",
    "ModelAuth",
    "ModelRequestContext",
    "RequestModelAuth",
    "StaticBearerAuth",
    "bind_model_auth",
    "check_model_auth",
    "create_async_openai_client",
    "create_openai_client",
    "request_headers",
]

_LAZY = {
    "RequestModelAuth": "benchmax.auth.http_auth",
    "create_async_openai_client": "benchmax.auth.openai_clients",
    "create_openai_client": "benchmax.auth.openai_clients",
}


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)
