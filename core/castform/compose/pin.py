"""What exactly a composed environment was: its section and every part of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from castform.compose.parts import UsedPart
from castform.plugins.pins import EnvironmentPin, PinDetails, combine_hashes, mark_files

SECTION = "[environment]"
"""What the section itself is called among the files of a pin."""


def make_pin(
    id: str, section: Mapping[str, Any], parts: Sequence[UsedPart], data_files: Mapping[str, str]
) -> EnvironmentPin:
    """Return the pin of a composed environment.

    `section` is the section as plain data, without the folder it lies in; `data_files` are the
    hashes of the dataset files by the name they have there. A part counts by its distribution,
    version and content, so that a change of it is named.
    """
    text = json.dumps(section, sort_keys=True, separators=(",", ":"), default=str)
    files = {
        SECTION: hashlib.sha256(text.encode()).hexdigest(),
        **data_files,
        **{name: _hash_parts(group) for name, group in _by_distribution(parts).items()},
    }
    return EnvironmentPin(
        id=id,
        distribution="",
        version="",
        content_sha256=combine_hashes(files),
        args=dict(section),
        details=PinDetails(files=mark_files(files)),
    )


def _by_distribution(parts: Iterable[UsedPart]) -> dict[str, list[UsedPart]]:
    groups: dict[tuple[str, str], list[UsedPart]] = {}
    for part in parts:
        if not part.distribution:
            continue  # data of the user's own counts as a file
        groups.setdefault((part.distribution, part.version), []).append(part)
    return {
        f"{distribution} {version} ({', '.join(sorted({part.id for part in group}))})": group
        for (distribution, version), group in sorted(groups.items())
    }


def _hash_parts(parts: Iterable[UsedPart]) -> str:
    texts = sorted(f"{p.kind}\0{p.id}\0{p.distribution}\0{p.version}\0{p.content_sha256}" for p in parts)
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()
