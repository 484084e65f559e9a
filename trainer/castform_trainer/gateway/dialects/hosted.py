"""Tools that run on a provider's servers: nothing behind this gateway can run them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from castform_trainer.gateway.errors import ApiError


def leave_out_hosted(hosted: Sequence[str], others: Sequence[Any]) -> tuple[str, ...]:
    """Return what the record says of hosted tools that are left out beside tools of the client's own.

    Agent programs offer them unasked, and work without. A request that has no other tools was made
    for them alone: ApiError 400 `unsupported_tool`.
    """
    if hosted and not others:
        raise refuse_tool(hosted[0])
    return tuple(f"tools={name}->left out" for name in hosted)


def refuse_tool(kind: Any) -> ApiError:
    return ApiError(
        400,
        "unsupported_tool",
        f"tools of type {kind!r} are not supported: no server here runs them",
        param="tools",
    )
