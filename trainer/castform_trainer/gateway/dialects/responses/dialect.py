"""OpenAI Responses put together, with its errors."""

from __future__ import annotations

from typing import Any

from castform_trainer.gateway.dialects.contract import Dialect, Waiting
from castform_trainer.gateway.dialects.responses.events import make_beat, make_events, make_failure
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


def _stream_error(error: ApiError, request: ChatRequest, waiting: Waiting) -> bytes:
    about = describe_error(error)["error"]
    code = about["code"] if error.status < 500 else "server_error"
    events = make_failure(_begin(request, waiting), waiting.beats, code=code, message=about["message"])
    return b"".join(events)


def _keep_alive(request: ChatRequest, waiting: Waiting) -> bytes:
    return make_beat(_begin(request, waiting), waiting.beats)


def _begin(request: ChatRequest, waiting: Waiting) -> dict[str, Any]:
    return describe_request(request, response_id=f"resp_{waiting.digest}", created=waiting.created)


RESPONSES = Dialect(
    name="responses",
    read=read_responses_request,
    write=make_response,
    stream=make_events,
    describe_error=describe_error,
    stream_error=_stream_error,
    keep_alive=_keep_alive,
    streamed_codes=frozenset({"context_budget_exceeded"}),
)
