"""An agent written for Harbor that travels with the environment, as the files it is made of."""

from __future__ import annotations

import hashlib
import importlib
import os
import re
import stat
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from types import ModuleType

from benchmax.envs.harbor.configs import AgentConfig, take_config

FORMAT = b"benchmax-bundled-harbor-agent-v1\0"
NAMESPACE = "_benchmax_harbor_agent_"
MAX_SOURCE_BYTES = 16 << 20

_IMPORT_PATH = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):([A-Za-z_]\w*)", re.ASCII)
_LOADING = threading.RLock()


@dataclass(frozen=True, repr=False)
class BundledAgentSource:
    """Files by their POSIX path, and one id for all of it that is the same on every machine."""

    files: tuple[tuple[str, bytes], ...]
    content_id: str = field(init=False)
    """`sha256:` and the hash over all paths and contents."""

    def __post_init__(self) -> None:
        files = tuple(
            sorted((_check_path(path), _check_content(path, content)) for path, content in self.files)
        )
        paths = [path for path, _ in files]
        if not paths:
            raise ValueError("an agent needs at least one file")
        repeated = sorted({path for path in paths if paths.count(path) > 1})
        if repeated:
            raise ValueError(f"duplicate paths: {', '.join(repeated)}")
        if sum(len(content) for _, content in files) > MAX_SOURCE_BYTES:
            raise ValueError(f"the agent's files hold more than {MAX_SOURCE_BYTES >> 20} MiB")
        object.__setattr__(self, "files", files)
        object.__setattr__(self, "content_id", hash_files(files))

    @classmethod
    def from_directory(cls, root: Path, *, files: Sequence[str | Path]) -> BundledAgentSource:
        """Read these files under `root`, and no others. ValueError: one is missing, a link, or behind one."""
        if isinstance(files, (str, Path)):
            raise TypeError("files must be a list of paths")
        return cls(tuple((_check_path(path), _read_inside(Path(root), _check_path(path))) for path in files))

    @classmethod
    def from_files(cls, files: Mapping[str, bytes]) -> BundledAgentSource:
        """Take contents by path."""
        return cls(tuple(files.items()))

    def __repr__(self) -> str:
        return f"BundledAgentSource({len(self.files)} files, {self.content_id})"


@dataclass(frozen=True)
class BundledHarborAgent:
    """A bundled agent with the config that it is constructed with."""

    config: AgentConfig
    source: BundledAgentSource

    def __post_init__(self) -> None:
        object.__setattr__(self, "config", take_config(AgentConfig, self.config, "config"))
        if not isinstance(self.source, BundledAgentSource):
            raise TypeError(f"source must be a BundledAgentSource, not {type(self.source).__name__}")
        if self.config.name is not None:
            raise ValueError("a bundled agent has an import_path and no name")
        module, _ = split_import_path(self.config.import_path)
        base = module.replace(".", "/")
        if not {f"{base}.py", f"{base}/__init__.py"} & {path for path, _ in self.source.files}:
            raise ValueError(
                f"{self.config.import_path} starts in {base}.py, which is not among the source's files"
            )

    def load(self) -> AgentConfig:
        """Make the agent importable and return its config with the import path that it now has.

        Each revision has a namespace of its own, so that several live side by side; `sys.path` stays.
        """
        module, name = split_import_path(self.config.import_path)
        namespace = load_namespace(self.source)
        importlib.import_module(f"{namespace}.{module}")
        return self.config.model_copy(update={"import_path": f"{namespace}.{module}:{name}"}, deep=True)


def hash_files(files: Sequence[tuple[str, bytes]]) -> str:
    """Return the content id: SHA-256 over a tag, then each path and content after its length (8 bytes)."""
    digest = hashlib.sha256(FORMAT)
    for path, content in files:
        for part in (path.encode("utf-8"), content):
            digest.update(len(part).to_bytes(8, "big"))
            digest.update(part)
    return f"sha256:{digest.hexdigest()}"


def split_import_path(import_path: str | None) -> tuple[str, str]:
    """Return module and class of `package.module:Class`. ValueError for anything else."""
    match = _IMPORT_PATH.fullmatch(import_path or "")
    if match is None:
        raise ValueError(f"import_path must be 'package.module:Class', not {import_path!r}")
    return match[1], match[2]


def load_namespace(source: BundledAgentSource) -> str:
    """Write the files to a read-only folder once a process, and return the package they are importable in."""
    name = NAMESPACE + source.content_id.removeprefix("sha256:")
    with _LOADING:
        if name not in sys.modules:
            folder = tempfile.TemporaryDirectory(prefix="benchmax-agent-")
            _write_read_only(Path(folder.name), source)
            package = ModuleType(name, "The files of a bundled agent.")
            package.__path__ = [folder.name]
            package.__dict__["_folder"] = (
                folder  # lives as long as the package; removed when the process ends
            )
            sys.modules[name] = package
    return name


def _write_read_only(root: Path, source: BundledAgentSource) -> None:
    folders = {root}
    for path, content in source.files:
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        folders |= {parent for parent in target.parents if parent.is_relative_to(root)}
        target.write_bytes(content)
        target.chmod(0o444)
    for folder in folders:
        folder.chmod(0o555)


def _check_path(path: str | Path) -> str:
    text = path.as_posix() if isinstance(path, Path) else path
    if not isinstance(text, str) or not text or "\0" in text or "\\" in text:
        raise ValueError(f"{path!r} is no relative POSIX path")
    pure = PurePosixPath(text)
    if pure.is_absolute() or pure.as_posix() != text or ".." in pure.parts or text == ".":
        raise ValueError(f"{text!r} is no relative POSIX path in its plain form")
    return text


def _check_content(path: str, content: object) -> bytes:
    if not isinstance(content, (bytes, bytearray)):
        raise TypeError(f"the content of {path!r} must be bytes, not {type(content).__name__}")
    return bytes(content)


def _read_inside(root: Path, path: str) -> bytes:
    place = root
    for part in PurePosixPath(path).parts:
        place = place / part
        if place.is_symlink():
            raise ValueError(f"{path!r} leads through a link, {place}")
    try:
        descriptor = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise ValueError(f"cannot read {place}: {error.strerror}") from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError(f"{place} is no regular file")
        with open(descriptor, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(descriptor)
