"""Anthropic Messages put together, with its errors."""

from __future__ import annotations

from typing import Any

from castform_trainer.gateway.dialects.anthropic.reply import PING, make_events, make_message
from castform_trainer.gateway.dialects.anthropic.request import read_messages_request
from castform_trainer.gateway.dialects.contract import Dialect, Waiting, write_event
from castform_trainer.gateway.errors import ApiError, ContextBudgetError
from castform_trainer.gateway.request import ChatRequest

ERROR_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    410: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    529: "overloaded_error",
}


def describe_error(error: ApiError) -> dict[str, Any]:
    """Return an error in the shape of the API. Clients know a prompt that is too long by its words."""
    kind = ERROR_TYPES.get(error.status, "invalid_request_error" if error.status < 500 else "api_error")
    message = error.message
    if isinstance(error, ContextBudgetError):
        message = f"prompt is too long: {error.prompt_tokens} tokens > {error.limit - 1} maximum"
    about = {"type": kind, "message": message, "code": error.code, "param": error.param}
    return {"type": "error", "error": about, "request_id": None}


def _stream_error(error: ApiError, request: ChatRequest, waiting: Waiting) -> bytes:
    return write_event(describe_error(error))


def _keep_alive(request: ChatRequest, waiting: Waiting) -> bytes:
    return PING


ANTHROPIC = Dialect(
    name="anthropic",
    read=read_messages_request,
    write=make_message,
    stream=make_events,
    describe_error=describe_error,
    stream_error=_stream_error,
    keep_alive=_keep_alive,
)
