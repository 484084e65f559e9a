"""Name a request to a judge after what it asks."""

from __future__ import annotations

from hashlib import sha256

ID_CHARS = 12


def make_request_id(kind: str, *texts: str) -> str:
    """Return `kind` and a hash of the texts: the same question has the same id on every machine."""
    content = "\0".join(texts).encode("utf-8", "surrogatepass")
    return f"{kind}-{sha256(content).hexdigest()[:ID_CHARS]}"
