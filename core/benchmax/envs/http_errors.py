"""Error replies of model endpoints as one readable line, without the keys that some of them repeat."""

from __future__ import annotations

import json
from collections.abc import Mapping

MAX_ERROR_CHARS = 500
MIN_SECRET_CHARS = 8
"""Shorter parts of a header (`Bearer`, a placeholder key) are words of ordinary errors."""


def without_secrets(body: bytes, headers: Mapping[str, str]) -> bytes:
    """Return a body without the keys of the request: some servers repeat them in their errors."""
    for value in headers.values():
        for part in value.split():
            if len(part) >= MIN_SECRET_CHARS:
                body = body.replace(part.encode(), b"***")
    return body


def describe_http_error(status: int, body: bytes) -> str:
    """Return `HTTP <status>: <message>`; the message is the body's own, or the body."""
    message = error_fields(body)[1]
    if status < 400 and message is None:
        message = "a redirect, which is not followed"
    return f"HTTP {status}: {(message or '')[:MAX_ERROR_CHARS] or shortened(body) or 'no message'}"


def error_fields(body: bytes) -> tuple[object, str | None]:
    """Return (code, message) of an error body in OpenAI's form, Nones where it has another."""
    try:
        error = json.loads(body)["error"]
        message = error.get("message")
        return error.get("code"), message if isinstance(message, str) else None
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None, None


def shortened(body: bytes) -> str:
    """Return the beginning of a body as text."""
    return body.decode("utf-8", errors="replace").strip()[:MAX_ERROR_CHARS]
