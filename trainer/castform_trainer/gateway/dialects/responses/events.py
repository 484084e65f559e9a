"""A Responses answer as server-sent events, numbered, in the order of the API."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from castform_trainer.gateway.chat import Answer
from castform_trainer.gateway.completion import cut
from castform_trainer.gateway.dialects.contract import write_event
from castform_trainer.gateway.dialects.responses.reply import describe_request, make_response

Event = dict[str, Any]
FILLED = ("content", "arguments", "input", "encrypted_content")
"""Fields of an item that are empty when it is added; deltas bring them."""


def make_events(answer: Answer, beats: int) -> Iterator[bytes]:
    """Yield the events of a stream, `response.created` to `response.completed` or `.incomplete`.

    After signs of life the stream has begun, and these go on from there.
    """
    response = make_response(answer)
    begun = describe_request(answer.request, response_id=response["id"], created=answer.created)
    events = [*([] if beats else _list_beginning(begun)), *_list_events(response)]
    for number, event in enumerate(events, start=_count_events(beats)):
        yield write_event({**event, "sequence_number": number})


def make_beat(begun: Mapping[str, Any], beats: int) -> bytes:
    """Return a sign of life: the beginning of the stream, then that it is still in progress.

    Comments would do for SDKs, but codex counts the seconds between events.
    """
    events = _list_beginning(begun)
    number = _count_events(beats)
    return b"".join(
        write_event({**event, "sequence_number": number + place})
        for place, event in enumerate(events[1:] if beats else events)
    )


def make_failure(begun: Mapping[str, Any], beats: int, *, code: str, message: str) -> Iterator[bytes]:
    """Yield the events of an answer that is an error."""
    failed = {**begun, "status": "failed", "error": {"code": code, "message": message}}
    events = [*([] if beats else _list_beginning(begun)), {"type": "response.failed", "response": failed}]
    for number, event in enumerate(events, start=_count_events(beats)):
        yield write_event({**event, "sequence_number": number})


def _count_events(beats: int) -> int:
    return beats + 1 if beats else 0


def _list_beginning(begun: Mapping[str, Any]) -> list[Event]:
    return [{"type": f"response.{name}", "response": begun} for name in ("created", "in_progress")]


def _list_events(response: Mapping[str, Any]) -> Iterator[Event]:
    for place, item in enumerate(response["output"]):
        empty = {**item, "status": "in_progress"}
        for field in FILLED:
            if field in item:
                empty[field] = [] if field == "content" else None if field == "encrypted_content" else ""
        yield {"type": "response.output_item.added", "output_index": place, "item": empty}
        yield from _list_deltas(item, {"item_id": item["id"], "output_index": place})
        yield {"type": "response.output_item.done", "output_index": place, "item": item}
    yield {"type": f"response.{response['status']}", "response": response}


def _list_deltas(item: Mapping[str, Any], head: Event) -> Iterator[Event]:
    if item["type"] in ("message", "reasoning"):
        for place, part in enumerate(item["content"]):
            yield from _list_part(part, {**head, "content_index": place})
        return
    field, name = {
        "function_call": ("arguments", "response.function_call_arguments"),
        "custom_tool_call": ("input", "response.custom_tool_call_input"),
    }.get(item["type"], (None, ""))
    if field is None:
        return
    for piece in cut(item[field]):
        yield {"type": f"{name}.delta", **head, "delta": piece}
    done = {"type": f"{name}.done", **head, field: item[field]}
    yield {**done, "name": item["name"]} if field == "arguments" else done


def _list_part(part: Mapping[str, Any], head: Event) -> Iterator[Event]:
    name = f"response.{part['type']}"
    extra: Event = {}
    empty = {**part, "text": ""}
    if part["type"] == "output_text":
        extra, empty["logprobs"] = {"logprobs": []}, []
    yield {"type": "response.content_part.added", **head, "part": empty}
    for piece in cut(part["text"]):
        yield {"type": f"{name}.delta", **head, "delta": piece, **extra}
    if extra:
        extra = {"logprobs": part["logprobs"]}
    yield {"type": f"{name}.done", **head, "text": part["text"], **extra}
    yield {"type": "response.content_part.done", **head, "part": part}
