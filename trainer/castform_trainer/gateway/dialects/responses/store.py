"""Responses that are kept for a session: for `previous_response_id`, item references and to be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from castform_trainer.gateway.errors import ApiError
from castform_trainer.gateway.sessions import Session

Item = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredResponse:
    """One answer and what was asked in its own request."""

    response: Mapping[str, Any]
    items: Sequence[Item]
    """The `input` of the request, each item with an id."""


def keep_response(session: Session, response: Mapping[str, Any], items: Sequence[Item]) -> None:
    """Keep an answer; one that was given again stays as it was."""
    key = response["id"]
    named = [
        item if item.get("id") else {**item, "id": f"in_{key}_{place}"} for place, item in enumerate(items)
    ]
    session.stored.setdefault(key, StoredResponse(response=response, items=named))


def find_response(session: Session, response_id: str) -> StoredResponse:
    """Return a kept answer; ApiError 404 when there is none of that id."""
    found = session.stored.get(response_id)
    if not isinstance(found, StoredResponse):
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
        found = session.stored.get(response_id) if isinstance(response_id, str) else None
        if not isinstance(found, StoredResponse):
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
    for stored in session.stored.values():
        if isinstance(stored, StoredResponse):
            items: list[Item] = [*stored.response["output"], *stored.items]
            for item in items:
                if item.get("id") == item_id and item.get("type") != "item_reference":
                    return item
    return None
