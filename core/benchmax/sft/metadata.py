"""The metadata of a row."""

from __future__ import annotations

from collections.abc import Iterator

from benchmax.sft.canonical import canonical_bytes
from benchmax.sft.issues import Fault
from benchmax.sft.limits import MAX_METADATA_BYTES, RESERVED_PREFIX
from benchmax.sft.wording import named, shown

LOCATION = "$.metadata"


def metadata_faults(metadata: object, *, is_json: bool) -> Iterator[Fault]:
    """Yield what is wrong with the value of a row's `metadata`.

    `is_json`: its tree has no fault. Otherwise it has no canonical bytes and its size is not looked at.
    """
    if not isinstance(metadata, dict) or type(metadata) is not dict:
        yield Fault("metadata_not_object", LOCATION, f"metadata is an object, not {shown(metadata)}")
        return
    reserved = sorted(key for key in metadata if type(key) is str and key.startswith(RESERVED_PREFIX))
    if reserved:
        text = f"keys that start with {RESERVED_PREFIX} are reserved: {named(reserved)}; rename them"
        yield Fault("metadata_reserved_prefix", LOCATION, text)
    if "tools" in metadata:
        text = "metadata has a key tools, which belongs to the row itself; move it there or rename it"
        yield Fault("metadata_reserved_tools", LOCATION, text)
    if is_json:
        size = len(canonical_bytes(metadata))
        if size > MAX_METADATA_BYTES:
            text = f"metadata has {size:,} canonical bytes; at most {MAX_METADATA_BYTES:,} are allowed"
            yield Fault("metadata_too_large", LOCATION, text)
