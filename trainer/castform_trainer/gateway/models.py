"""The models of a session, described for the clients of OpenAI and of Anthropic at once."""

from __future__ import annotations

from typing import Any

from castform.endpoint import SessionSpec


def list_models(spec: SessionSpec, model: str) -> dict[str, Any]:
    """Return the session's model and the other names it is served under; patterns are not listed."""
    names = [model, *(alias for alias in spec.model_aliases if not set(alias) & set("*?["))]
    models = [describe_model(name) for name in dict.fromkeys(names)]
    return {
        "object": "list",
        "data": models,
        "has_more": False,
        "first_id": names[0],
        "last_id": models[-1]["id"],
    }


def describe_model(name: str) -> dict[str, Any]:
    """Return one entry of the list."""
    return {
        "id": name,
        "object": "model",
        "created": 0,
        "owned_by": "castform",
        "type": "model",
        "display_name": name,
        "created_at": "1970-01-01T00:00:00Z",
    }
