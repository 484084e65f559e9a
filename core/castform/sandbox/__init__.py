"""Boxes that run untrusted programs: the contract, `process`, and what providers share.

Names are imported when they are first used, so that naming the contract stays cheap.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from castform.sandbox.load import list_providers as list_providers
    from castform.sandbox.load import load_provider as load_provider

_HOME_OF = {
    "list_providers": "castform.sandbox.load",
    "load_provider": "castform.sandbox.load",
}
__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> Any:  # whatever the submodule holds under this name
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)
