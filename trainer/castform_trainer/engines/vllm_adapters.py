"""Adapter versions on a vLLM server: which are loaded, under which name, in which folder.

Every version gets a new name and a new folder. Under an old name the server could answer
from the prefix cache of the old weights, and a folder that the trainer writes again could be
read again when the server has dropped the version from memory.
"""

from __future__ import annotations

import secrets
import shutil
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from castform.errors import UsageError


class AdapterVersions:
    """Names and folders of the loaded versions. May be used from any thread."""

    def __init__(self, folder: Path, base_name: str) -> None:
        self._folder = folder
        self._base_name = base_name
        self._prefix = f"castform-{secrets.token_hex(4)}"
        self._lock = threading.Lock()
        self._loaded: set[int] = set()
        self._highest = 0
        self._in_use: Counter[int] = Counter()

    def name_of(self, version: int) -> str:
        """Return the name that the server knows a version by; 0 is the base model."""
        return f"{self._prefix}-v{version}" if version else self._base_name

    def copy_in(self, path: Path, version: int) -> Path:
        """Copy an adapter folder to the version's own place and return that.

        Raises ValueError for a version that is not larger than all before,
        UsageError for a folder without an adapter.
        """
        with self._lock:
            if version <= self._highest:
                raise ValueError(
                    f"adapter version {version} is not larger than {self._highest}, the newest so far"
                )
        if not (path / "adapter_config.json").is_file():
            raise UsageError(f"{path} is not a PEFT adapter folder: it has no adapter_config.json")
        target = self._folder / self.name_of(version)
        shutil.copytree(path, target)
        return target

    def drop_copy(self, version: int) -> None:
        """Remove a version's folder, loaded or not."""
        shutil.rmtree(self._folder / self.name_of(version), ignore_errors=True)

    def add(self, version: int) -> None:
        """Count a version as loaded: it is the newest from here on."""
        with self._lock:
            self._loaded.add(version)
            self._highest = max(self._highest, version)

    def remove(self, version: int) -> bool:
        """Forget a version; its folder goes with its last reply. False: it was not loaded."""
        with self._lock:
            if version not in self._loaded:
                return False
            self._loaded.remove(version)
            idle = not self._in_use[version]
        if idle:
            self.drop_copy(version)
        return True

    def loaded(self) -> list[int]:
        """Return the loaded versions, oldest first."""
        with self._lock:
            return sorted(self._loaded)

    @contextmanager
    def use(self, version: int | None) -> Iterator[int]:
        """Hold a version, None meaning the newest, while a reply is sampled; raises KeyError."""
        with self._lock:
            chosen = max(self._loaded, default=0) if version is None else version
            if chosen and chosen not in self._loaded:
                raise KeyError(f"adapter version {chosen} is not loaded")
            self._in_use[chosen] += 1
        try:
            yield chosen
        finally:
            with self._lock:
                self._in_use[chosen] -= 1
                gone = chosen and chosen not in self._loaded and not self._in_use[chosen]
            if gone:
                self.drop_copy(chosen)
