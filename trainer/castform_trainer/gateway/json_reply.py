"""An HTTP answer that is one JSON document."""

from __future__ import annotations

import json
from typing import Any

from aiohttp import web


def make_json_reply(value: Any, *, status: int = 200) -> web.Response:
    """Return a compact `application/json` answer."""
    return web.Response(
        body=json.dumps(value, separators=(",", ":")).encode(), status=status, content_type="application/json"
    )
