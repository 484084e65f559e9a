"""Write down what a certification found, with everything that it is about."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import platform
import secrets
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from castform import __version__
from castform.certify.certificates import (
    BATTERY_VERSION,
    FORMAT,
    certificate_name,
    certificates_folder,
)
from castform.certify.certification import Certification
from castform.errors import RunFailedError, UsageError
from castform.home import expand_home
from castform.plugins.environment_files import is_path, split_class

DIGEST_CHARACTERS = 8
_COPIED = (
    "split",
    "examples",
    "seed",
    "weights",
    "model",
    "seconds",
    "rates",
    "findings",
    "accepted",
    "unchecked",
    "forecast",
)


def make_certificate(found: Certification, *, certified_at: datetime) -> dict[str, Any]:
    """Return a certificate as JSON values. ValueError for a certification of one probe or check."""
    if found.options.only is not None:
        raise ValueError("one probe or check is no certification")
    data = found.as_dict()
    return {
        "format": FORMAT,
        "certified_at": certified_at.astimezone(UTC).isoformat(timespec="seconds"),
        "passed": data["passed"],
        "verdict": data["verdict"],
        "complete": data["complete"],
        "conclusion": data["conclusion"],
        "id": found.id,
        "environment_name": found.id.partition("/")[2] if not is_path(found.id) else found.pin.id,
        "package": found.package,
        "environment": data["environment"],
        "arguments": dict(found.arguments),
        "castform": __version__,
        "python": platform.python_version(),
        "battery": BATTERY_VERSION,
        **{name: data[name] for name in _COPIED},
    }


def certificate_path(found: Certification) -> Path:
    """Return where the certificate of an environment lies: by its id, or by the path of its file."""
    digest = _digest(found.arguments) if found.arguments else ""
    if not is_path(found.id):
        return certificates_folder() / certificate_name(found.id, digest)
    file = expand_home(split_class(found.id)[0]).resolve()
    place = hashlib.sha256(str(file).encode()).hexdigest()[: 2 * DIGEST_CHARACTERS]
    name = found.pin.id.partition(":")[2]
    return certificates_folder() / certificate_name(f"file/{file.stem}-{name}-{place}", digest)


def save_certificate(certificate: dict[str, Any], path: Path) -> None:
    """Write a certificate so that a reader sees the old one or the new one, whole.

    UsageError where the folder cannot be made or written; RunFailedError when the disk is full.
    """
    text = json.dumps(certificate, indent=2, ensure_ascii=False, default=str, sort_keys=True) + "\n"
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with part.open("w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink()
        kind = RunFailedError if error.errno == errno.ENOSPC else UsageError
        raise kind(f"the certificate cannot be written to {path}: {error.strerror}") from error


def _digest(value: object) -> str:
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:DIGEST_CHARACTERS]
