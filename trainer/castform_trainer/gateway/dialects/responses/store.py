"""Responses that are kept for a session: for `previous_response_id`, item references and to be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from castform_trainer.gateway.errors import ApiError
from castform_trainer.gateway.sessions import Session

Item = Mapping[str, Any]
MAX_RESPONSES = 4096
"""That one session keeps."""
MAX_BYTES = 256 << 20
"""Of the requests whose items one session keeps."""
STORE = "responses"
"""Where a session has its ResponseStore."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredResponse:
    """One answer and what was asked in its own request."""

    response: Mapping[str, Any]
    items: Sequence[Item]
    """The `input` of the request, each item with an id."""


@dataclass(kw_only=True, eq=False, slots=True)
class ResponseStore:
    """What one session keeps, found by id."""

    responses: dict[str, StoredResponse] = field(default_factory=dict)
    items: dict[str, dict[str, Item]] = field(default_factory=dict)
    """By an item's id and then by the response that it belongs to, the oldest first."""
    sizes: dict[str, int] = field(default_factory=dict)
    """Bytes of the request, by response."""
    bytes: int = 0


def check_room(session: Session) -> None:
    """ApiError 400 when this session keeps as much as one may: ask before a reply is sampled."""
    store = _find_store(session)
    if store is None or (len(store.responses) < MAX_RESPONSES and store.bytes < MAX_BYTES):
        return
    raise ApiError(
        400,
        "too_many_stored_responses",
        f"this session keeps {len(store.responses)} responses with {store.bytes >> 20} MiB of input; a session "
        f"keeps {MAX_RESPONSES} and {MAX_BYTES >> 20} MiB: send store=false, or delete some",
        param="store",
    )


def keep_response(
    session: Session, response: Mapping[str, Any], items: Sequence[Item], *, size: int = 0
) -> None:
    """Keep an answer; one that was given again stays as it was. `size`: bytes of its request."""
    store = session.stored.setdefault(STORE, ResponseStore())
    assert isinstance(store, ResponseStore)
    key = response["id"]
    if key in store.responses:
        return
    named = [
        item if item.get("id") else {**item, "id": f"in_{key}_{place}"} for place, item in enumerate(items)
    ]
    store.responses[key] = StoredResponse(response=response, items=named)
    store.sizes[key] = size
    store.bytes += size
    for item in (*response["output"], *named):
        if item.get("type") != "item_reference" and isinstance(item.get("id"), str):
            store.items.setdefault(item["id"], {}).setdefault(key, item)


def remove_response(session: Session, response_id: str) -> None:
    """Forget a kept answer and its items; ApiError 404 when there is none of that id."""
    found = find_response(session, response_id)
    store = _find_store(session)
    assert store is not None
    del store.responses[response_id]
    store.bytes -= store.sizes.pop(response_id)
    for item in (*found.response["output"], *found.items):
        owners = store.items.get(item["id"], {}) if isinstance(item.get("id"), str) else {}
        owners.pop(response_id, None)
        if not owners:
            store.items.pop(item["id"], None)


def find_response(session: Session, response_id: str) -> StoredResponse:
    """Return a kept answer; ApiError 404 when there is none of that id."""
    found = _look_up(session, response_id)
    if found is None:
        raise ApiError(
            404,
            "response_not_found",
            f"no response {response_id!r} is stored in this session",
            param="response_id",
        )
    return found


def list_history(session: Session, response_id: Any) -> list[Item]:
    """Return all items that lead to the end of a kept answer, oldest first; none without an id."""
    turns = []
    while response_id is not None:
        found = _look_up(session, response_id) if isinstance(response_id, str) else None
        if found is None:
            raise ApiError(
                400,
                "previous_response_not_found",
                f"previous response {response_id!r} is not stored in this session",
                param="previous_response_id",
            )
        turns.append([*found.items, *found.response["output"]])
        response_id = found.response["previous_response_id"]
    return [item for turn in reversed(turns) for item in turn]


def find_item(session: Session, item_id: str) -> Item | None:
    """Return a kept item of any answer or request."""
    store = _find_store(session)
    owners = {} if store is None else store.items.get(item_id, {})
    return next(iter(owners.values()), None)


def _look_up(session: Session, response_id: str) -> StoredResponse | None:
    store = _find_store(session)
    return None if store is None else store.responses.get(response_id)


def _find_store(session: Session) -> ResponseStore | None:
    found = session.stored.get(STORE)
    return found if isinstance(found, ResponseStore) else None
