"""Wait for what one of the author's hooks returned."""

from __future__ import annotations

import inspect
from typing import Any


async def await_hook(value: Any) -> Any:  # Any: whatever the hook is for
    """Return the value of a hook: awaited when it is async, as all of them are by contract; a plain one is harmless."""
    return await value if inspect.isawaitable(value) else value
