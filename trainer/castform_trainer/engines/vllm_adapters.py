"""Adapter versions on a vLLM server: which are loaded, under which name, in which folder.

Every version gets a new name and a new folder. Under an old name the server could answer
from the prefix cache of the old weights, and a folder that the trainer writes again could be
read again when the server has dropped the version from memory.

The base model is served through an adapter of zeros as soon as there is any other adapter: vLLM's
CPU build (0.32) otherwise computes base replies that share a batch with adapter replies through
whatever adapter lies in the last of its slots. Adding zeros changes no bit.
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
        self._has_zeros = False
        self._lock = threading.Lock()
        self._loaded: set[int] = set()
        self._highest = 0
        self._in_use: Counter[int] = Counter()

    def name_of(self, version: int) -> str:
        """Return the name that the server knows a version by; 0 is the base model."""
        return self._folder_name(version) if version or self._has_zeros else self._base_name

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
        for name in ("adapter_config.json", "adapter_model.safetensors"):
            if not (path / name).is_file():
                raise UsageError(f"{path} is not a PEFT adapter folder: it has no {name}")
        target = self._folder / self._folder_name(version)
        shutil.copytree(path, target)
        return target

    def make_zeros(self, path: Path) -> tuple[str, Path] | None:
        """Write an adapter of zeros, shaped like the one in `path`; return its name and folder.

        None: the server has it. Call `add(0)` when the server has taken it.
        """
        if self._has_zeros:
            return None
        name = self._folder_name(0)
        target = self._folder / name
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(path, target)
        weights = target / "adapter_model.safetensors"
        content = weights.read_bytes()
        header = 8 + int.from_bytes(content[:8], "little")  # its length, then names and shapes
        weights.write_bytes(content[:header] + bytes(len(content) - header))
        return name, target

    def drop_copy(self, version: int) -> None:
        """Remove a version's folder, loaded or not."""
        shutil.rmtree(self._folder / self._folder_name(version), ignore_errors=True)

    def drop_copies(self) -> None:
        """Remove every folder of this engine: nothing of it is loaded any more."""
        for folder in self._folder.glob(f"{self._prefix}-*"):
            shutil.rmtree(folder, ignore_errors=True)

    def add(self, version: int) -> None:
        """Count a version as loaded: it is the newest from here on. 0 is the adapter of zeros."""
        with self._lock:
            if not version:
                self._has_zeros = True
                return
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

    def names(self) -> list[str]:
        """Return the names of all adapters that the server holds for this engine."""
        with self._lock:
            versions = [*([0] if self._has_zeros else []), *sorted(self._loaded)]
        return [self._folder_name(version) for version in versions]

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

    def _folder_name(self, version: int) -> str:
        return f"{self._prefix}-v{version}" if version else f"{self._prefix}-base"
