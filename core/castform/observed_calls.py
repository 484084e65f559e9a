"""Model calls as the environment's client saw them, for servers that keep no record themselves.

Such calls have no token ids: they can be read and counted, never trained on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from castform.calls import ModelCall

ObservedCall = tuple[Mapping[str, Any], Mapping[str, Any], float]
"""Request body, reply body, seconds."""


def make_model_calls(session_id: str, observed: Sequence[ObservedCall]) -> tuple[ModelCall, ...]:
    """Return one ModelCall for each choice of each observed reply, in order."""
    return tuple(
        _call(session_id, index, place, choice, request, reply, seconds)
        for index, (request, reply, seconds) in enumerate(observed)
        for place, choice in enumerate(reply.get("choices") or ())
    )


def _call(
    session_id: str,
    index: int,
    place: int,
    choice: Mapping[str, Any],
    request: Mapping[str, Any],
    reply: Mapping[str, Any],
    seconds: float,
) -> ModelCall:
    usage: Mapping[str, Any] = reply.get("usage") or {}
    alone = len(reply["choices"]) == 1  # usage counts all choices together
    return ModelCall(
        call_id=f"{session_id}.{index}.{place}",
        session_id=session_id,
        index=index,
        choice=place,
        messages=tuple(request.get("messages") or ()),
        tools=tuple(request.get("tools") or ()),
        reply=choice.get("message") or {},
        finish_reason=str(choice.get("finish_reason") or "unknown"),
        prompt_tokens=usage.get("prompt_tokens"),
        completion_tokens=usage.get("completion_tokens") if alone else None,
        seconds=seconds,
    )
