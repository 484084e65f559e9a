"""Which keys an object may have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from benchmax.sft.issues import Fault
from benchmax.sft.wording import listed_keys


def key_faults(
    value: Mapping[object, object], allowed: tuple[str, ...], location: str, *, what: str, note: str = ""
) -> Iterator[Fault]:
    """Yield one `unknown_key` that names all keys, sorted, that are not among the allowed ones."""
    unknown = [key for key in value if type(key) is not str or key not in allowed]
    if unknown:
        listed = ", ".join(allowed)
        message = f"{what} has no key {listed_keys(unknown)}; its keys are {listed}{note}"
        yield Fault("unknown_key", location, message)
