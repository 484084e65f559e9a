"""What exactly an environment was: enough to refuse to resume with another one.

A pin names the code (a hash over the package's files, or over a file and the modules beside
it that it imports), the arguments and the examples. Its digest is what every stored rollout
carries. The details are not part of the pin: they only let a change be named.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from castform.plugins.content import combine_hashes, hash_content, hash_file, hash_files
from castform.plugins.fingerprints import ExampleMarks, fingerprint_examples, mark_examples

if TYPE_CHECKING:
    from benchmax.envs import Example

__all__ = [
    "EnvironmentPin",
    "PinDetails",
    "combine_hashes",
    "digest_pin",
    "find_local_imports",
    "fingerprint_examples",
    "hash_content",
    "hash_environment_file",
    "hash_files",
    "mark_files",
]

FILE_MARK_CHARACTERS = 16


@dataclass(frozen=True, kw_only=True, slots=True)
class PinDetails:
    """What lets a change be named, file by file and example by example."""

    files: Mapping[str, str] = field(default_factory=dict)
    """File name, relative, to the first 16 hex digits of its sha256."""
    examples: Mapping[str, ExampleMarks] = field(default_factory=dict)
    """Split to the marks of its examples."""

    def as_dict(self) -> dict[str, Any]:
        """Return plain data for the run store."""
        return {
            "files": dict(self.files),
            "examples": {split: marks.as_dict() for split, marks in self.examples.items()},
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class EnvironmentPin:
    """Stored with every run and, by its digest, with every rollout."""

    id: str
    """`plugin/environment`, or `file.py:Class` for a file."""
    distribution: str
    """Empty for a file."""
    version: str
    content_sha256: str
    """Hex digest over the names and bytes of the package's files, or of the file and what it imports."""
    args: Mapping[str, Any] = field(default_factory=dict)
    """Arguments in force, defaults of the config model included."""
    datasets: Mapping[str, str] = field(default_factory=dict)
    """Split to the fingerprint of the examples that were used; empty until they are loaded."""
    details: PinDetails = field(default_factory=PinDetails, compare=False, repr=False)
    """For messages; neither in `as_dict` nor in the digest."""

    def with_examples(self, **splits: Sequence[Example[Any]]) -> EnvironmentPin:
        """Return the pin with the fingerprints of these splits' examples."""
        marks = {split: mark_examples(examples) for split, examples in splits.items()}
        return replace(
            self,
            datasets={**self.datasets, **{split: found.sha256 for split, found in marks.items()}},
            details=replace(self.details, examples={**self.details.examples, **marks}),
        )

    def as_dict(self) -> dict[str, Any]:
        """Return plain data for the run store."""
        return {
            "id": self.id,
            "distribution": self.distribution,
            "version": self.version,
            "content_sha256": self.content_sha256,
            "args": dict(self.args),
            "datasets": dict(self.datasets),
        }

    def digest(self) -> str:
        """Return the hex digest of everything in `as_dict`."""
        return digest_pin(self.as_dict())


def digest_pin(pin: Mapping[str, Any]) -> str:
    """Return the digest of a pin as plain data; a pin of before datasets were in it has one too."""
    told = {name: value for name, value in pin.items() if value not in ({}, None)}
    text = json.dumps(told, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def hash_environment_file(path: Path) -> dict[str, str]:
    """Return name to sha256 for an environment's file and the modules beside it that it imports.

    Data files are not content: the fingerprint of the examples covers what was read from them.
    """
    files = [path, *find_local_imports(path)]
    return {file.relative_to(path.parent).as_posix(): hash_file(file) for file in files}


def mark_files(files: Mapping[str, str]) -> dict[str, str]:
    """Return the hashes shortened to what tells one version of a file from another."""
    return {name: sha256[:FILE_MARK_CHARACTERS] for name, sha256 in files.items()}


def find_local_imports(path: Path) -> list[Path]:
    """Return the Python files below `path`'s folder that it imports, directly or through each other, sorted.

    Read from the import statements, so that the answer does not depend on what ran before. A
    package counts whole.
    """
    folder = path.parent
    found: set[Path] = set()
    waiting = [path]
    while waiting:
        for name in _imported_names(waiting.pop()):
            for file in _files_of(folder, name):
                if file not in found and file != path:
                    found.add(file)
                    waiting.append(file)
    return sorted(found)


def _imported_names(file: Path) -> set[str]:
    """Return the top-level names that a file's absolute imports begin with."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):  # it was never imported as it is
        return set()
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return names


def _files_of(folder: Path, name: str) -> Iterable[Path]:
    module, package = folder / f"{name}.py", folder / name
    if module.is_file():
        return [module]
    if (package / "__init__.py").is_file():
        return sorted(package.rglob("*.py"))
    return []
