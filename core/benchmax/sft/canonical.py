"""The one way in which a row is written: the bytes that are stored, uploaded and hashed."""

from __future__ import annotations

import json

_ENCODER = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False, check_circular=False
)


def canonical_bytes(value: object) -> bytes:
    """Return a value as JSON with sorted keys, no spaces, raw UTF-8 and no newline.

    Only for values without a fault of the tree (benchmax.sft.tree): others raise what json raises,
    strings with half of a surrogate pair UnicodeEncodeError.
    """
    return _ENCODER.encode(value).encode()
