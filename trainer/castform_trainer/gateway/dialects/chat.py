"""OpenAI chat completions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from castform_trainer.gateway.chat import Answer
from castform_trainer.gateway.completion import make_chunks, make_completion
from castform_trainer.gateway.dialects.contract import Dialect, Waiting
from castform_trainer.gateway.errors import ApiError
from castform_trainer.gateway.request import ChatRequest, read_chat_request
from castform_trainer.gateway.sessions import Session


def _read(data: bytes, session: Session, model: str) -> ChatRequest:
    spec = session.spec
    return read_chat_request(
        data,
        model=model,
        training=spec.enforce_sampling,
        aliases=spec.model_aliases,
        calls=session.calls,
    )


def _write(answer: Answer) -> Mapping[str, Any]:
    return make_completion(
        answer.choices, completion_id=_make_id(answer), model=answer.request.model, created=answer.created
    )


def _stream(answer: Answer, beats: int) -> Iterable[bytes]:
    return make_chunks(
        answer.choices,
        completion_id=_make_id(answer),
        model=answer.request.model,
        created=answer.created,
        usage=answer.request.stream_usage,
    )


def _make_id(answer: Answer) -> str:
    return f"chatcmpl-{answer.digest}"


def _stream_error(error: ApiError, request: ChatRequest, waiting: Waiting) -> bytes:
    return b"data: " + json.dumps(error.body()).encode() + b"\n\n"


def _keep_alive(request: ChatRequest, waiting: Waiting) -> bytes:
    return b": waiting\n\n"


CHAT = Dialect(
    name="chat",
    read=_read,
    write=_write,
    stream=_stream,
    describe_error=ApiError.body,
    stream_error=_stream_error,
    keep_alive=_keep_alive,
)
