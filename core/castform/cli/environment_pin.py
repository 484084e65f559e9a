"""A pin in one line, wherever the command line names an environment that scored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def describe_pin(pin: Mapping[str, Any]) -> str:
    """Return id, where it is from, and the beginning of its content hash."""
    source = f"{pin.get('distribution') or 'a file'} {pin.get('version') or ''}".strip()
    content = str(pin.get("content_sha256") or "")[:12]
    return f"{pin.get('id') or '?'} ({source}{f', content {content}' if content else ''})"
