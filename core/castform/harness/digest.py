"""Tell whether two harnesses are the same: a hash of what each was made with."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from castform.file_digest import digest_files
from castform.harness.command import CommandHarness
from castform.harness.contract import Harness


def digest_harness(harness: Harness) -> str:
    """Return 32 hex digits of a harness's kind, name, version, settings and the files that it uploads.

    Settings are its attributes that are plain data or a pydantic model. Functions and clients,
    where its TOML lies and what is installed in a box do not count. UsageError: a file that cannot be read.
    """
    kind = type(harness)
    found = {
        "kind": f"{kind.__module__}.{kind.__qualname__}",
        "name": harness.name,
        "version": harness.version,
        "settings": dict(_list_settings(harness)),
        "uploads": _digest_uploads(harness),
    }
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()[:32]


def _list_settings(harness: Harness) -> Iterator[tuple[str, Any]]:  # Any: JSON
    named = [item.name for item in fields(harness)] if is_dataclass(harness) else vars(harness)
    for name in named:
        value = getattr(harness, name)
        dump = getattr(value, "model_dump", None)
        plain = dump(mode="json") if callable(dump) else value
        if _is_plain(plain):
            yield name, plain


def _is_plain(value: object) -> bool:
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and _is_plain(item) for key, item in value.items())
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, str | int | float)


def _digest_uploads(harness: Harness) -> dict[str, str]:
    if not isinstance(harness, CommandHarness):
        return {}
    return {
        target: digest_files(harness.base_dir / Path(source).expanduser())
        for target, source in harness.section.upload.items()
    }
