"""The official `mcp` package, imported once a server is started: that alone takes a second or two."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from benchmax.envs.worker_thread import call_in_thread

CLIENT_NAME = "castform"


def check_sdk() -> None:
    """Raise ImportError, with the way out, unless the `mcp` package is there in a version that fits."""
    if importlib.util.find_spec("mcp") is None:
        raise ImportError("MCP servers need the mcp package: pip install 'castform[mcp]'", name="mcp")
    if importlib.util.find_spec("mcp_types") is None:  # version 1 has them in a module of its own
        raise ImportError(
            "MCP servers need version 2 of the mcp package: pip install 'castform[mcp]'", name="mcp"
        )


async def load_sdk() -> None:
    """Import the package without holding up the event loop."""

    def load() -> None:
        importlib.import_module("mcp.client.streamable_http")

    check_sdk()
    await call_in_thread(load, {})


def make_session(read: Any, write: Any) -> Any:  # Any: the package's own types, imported late
    """Return an unentered ClientSession over a pair of streams."""
    from mcp.client.session import ClientSession
    from mcp_types import Implementation

    return ClientSession(read, write, client_info=Implementation(name=CLIENT_NAME, version="1"))
