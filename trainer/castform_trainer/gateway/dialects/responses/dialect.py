"""OpenAI Responses put together, with its errors."""

from __future__ import annotations

import time
from typing import Any

from castform_trainer.gateway.dialects.contract import Dialect
from castform_trainer.gateway.dialects.responses.events import make_events, make_failure
from castform_trainer.gateway.dialects.responses.reply import describe_request, make_response
from castform_trainer.gateway.dialects.responses.request import read_responses_request
from castform_trainer.gateway.errors import ApiError, ContextBudgetError
from castform_trainer.gateway.request import ChatRequest

TOO_LONG = "context_length_exceeded"
"""By this code clients know that they have to shorten the conversation."""


def describe_error(error: ApiError) -> dict[str, Any]:
    """Return an error in the shape of the API."""
    body = error.body()
    if isinstance(error, ContextBudgetError):
        body["error"]["code"], body["error"]["param"] = TOO_LONG, "input"
    return body


def _stream_error(error: ApiError, request: ChatRequest) -> bytes:
    about = describe_error(error)["error"]
    code = about["code"] if error.status < 500 else "server_error"
    key = request.body_digest.hex()[:24]
    response = describe_request(request, response_id=f"resp_{key}", created=int(time.time()))
    return b"".join(make_failure(response, code=code, message=about["message"]))


RESPONSES = Dialect(
    name="responses",
    read=read_responses_request,
    write=make_response,
    stream=make_events,
    describe_error=describe_error,
    stream_error=_stream_error,
    streamed_codes=frozenset({"context_budget_exceeded"}),
)
