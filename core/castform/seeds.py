"""Seeds that never collide by accident: every random choice has its own, derived by name."""

from __future__ import annotations

import hashlib


def derive_seed(*parts: int | str) -> int:
    """Return a seed in [0, 2**63) that depends on every part and on their order."""
    digest = hashlib.sha256("\x1f".join(f"{type(p).__name__}:{p}" for p in parts).encode())
    return int.from_bytes(digest.digest()[:8], "big") >> 1
