"""The wheel of `castform` that a resolver of isolated environments sees: metadata alone.

The plugin requires castform, so there must be such a distribution; its code is linked, not installed
(`runtime_links`).
"""

from __future__ import annotations

import base64
import hashlib
import zipfile
from importlib import metadata
from pathlib import Path
from typing import Literal

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from castform import __version__

Runtime = Literal["full", "minimal"]
"""full: all that benchmax offers an author works; minimal: what a worker needs alone."""

HOST_ONLY = frozenset({"rich", "sqlalchemy"})
"""What the command line and the run store need, and no plugin."""
WORKER_NEEDS = frozenset({"aiohttp", "packaging", "pluggy"})
"""What `benchmax.envs`, `castform.plugins` and `castform.workers` import."""
_EPOCH = (2020, 1, 1, 0, 0, 0)
"""Of every file in the wheel: the same metadata is the same wheel."""


def list_runtime_requirements(runtime: Runtime) -> list[str]:
    """Return what the castform of an isolated environment requires, extras included, as written."""
    kept = []
    for text in metadata.requires("castform") or []:
        requirement = Requirement(text)
        name = canonicalize_name(requirement.name)
        if _is_of_extra(requirement) or name in WORKER_NEEDS or (runtime == "full" and name not in HOST_ONLY):
            kept.append(text)
    return kept


def write_runtime_wheel(folder: Path, runtime: Runtime) -> Path:
    """Write the wheel of `castform` for isolated environments into a folder and return its path."""
    info = f"castform-{__version__}.dist-info"
    extras = metadata.metadata("castform").get_all("Provides-Extra") or []
    headers = [
        "Metadata-Version: 2.4",
        "Name: castform",
        f"Version: {__version__}",
        "Summary: The castform that runs this environment's workers, linked",
        *(f"Provides-Extra: {extra}" for extra in extras),
        *(f"Requires-Dist: {text}" for text in list_runtime_requirements(runtime)),
    ]
    files = {
        f"{info}/METADATA": "\n".join(headers) + "\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: castform\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = [f"{name},sha256={_digest(text)},{len(text.encode())}" for name, text in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,"]) + "\n"
    path = folder / f"castform-{__version__}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for name, text in files.items():
            wheel.writestr(zipfile.ZipInfo(name, _EPOCH), text)
    return path


def _is_of_extra(requirement: Requirement) -> bool:
    return requirement.marker is not None and not requirement.marker.evaluate({"extra": ""})


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
