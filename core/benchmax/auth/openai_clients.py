"""OpenAI clients that ask a ModelAuth before every request.

The async one uses the SDK's aiohttp transport: at 128 requests at a time it costs an
eighth of the CPU of the httpx one.
"""

from __future__ import annotations

import importlib
from typing import Any

import openai

from benchmax.auth.http_auth import RequestModelAuth
from benchmax.auth.providers import ModelAuth, ModelRequestContext

PLACEHOLDER_KEY = "replaced-by-model-auth"
"""The SDK wants a key at construction; it never leaves, for the auth takes its header out."""


def create_async_openai_client(
    *, model: str, base_url: str, auth: ModelAuth, request_id: str, max_retries: int = 2
) -> openai.AsyncOpenAI:
    """Return an async client whose requests are authorised one by one; close it after use."""
    context = ModelRequestContext(base_url, model, request_id)
    transport = openai.DefaultAioHttpClient
    return openai.AsyncOpenAI(
        api_key=PLACEHOLDER_KEY,
        base_url=base_url,
        max_retries=max_retries,
        http_client=transport(auth=_auth_for(transport, auth, context)),
    )


def create_openai_client(
    *, model: str, base_url: str, auth: ModelAuth, request_id: str, max_retries: int = 2
) -> openai.OpenAI:
    """Return a sync client whose requests are authorised one by one; close it after use."""
    context = ModelRequestContext(base_url, model, request_id)
    transport = openai.DefaultHttpxClient
    return openai.OpenAI(
        api_key=PLACEHOLDER_KEY,
        base_url=base_url,
        max_retries=max_retries,
        http_client=transport(auth=_auth_for(transport, auth, context)),
    )


def _auth_for(transport: type, auth: ModelAuth, context: ModelRequestContext) -> Any:
    """Return the auth in the form that the SDK's HTTP library accepts.

    Any: newer SDKs use httpx2, whose `Auth` is the same protocol under another base class.
    """
    library = next(
        base.__module__.partition(".")[0]
        for base in transport.__mro__
        if base.__name__ in ("Client", "AsyncClient")
    )
    base = importlib.import_module(library).Auth
    if issubclass(RequestModelAuth, base):
        return RequestModelAuth(auth, context)
    return type("RequestModelAuth", (RequestModelAuth, base), {})(auth, context)
