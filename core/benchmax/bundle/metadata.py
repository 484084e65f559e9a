"""What a bundle says of itself, in JSON that can be read without loading anything."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name


@dataclass(frozen=True)
class BundleMetadata:
    """What must be there before a bundle can be loaded.

    Dependencies are brought into canonical form: PEP 508 text with normalised names, sorted.
    TypeError for fields of a wrong type; ValueError for versions that are not there, for
    text that is no dependency and for a distribution that is declared twice.
    """

    pip_dependencies: Sequence[str]
    """What to install, as PEP 508 text. A sorted tuple once made."""
    python_version: str
    """Major and minor version, as in `3.12`."""
    benchmax_version: str
    env_class_source: str | None
    """Source text of the class, for people; None where there is none."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "pip_dependencies", canonical_dependencies(self.pip_dependencies))
        for name in ("python_version", "benchmax_version"):
            value = getattr(self, name)
            if not isinstance(value, str) or not value.strip():
                raise ValueError(f"{name} must be a non-empty string, not {value!r}")
        if self.env_class_source is not None and not isinstance(self.env_class_source, str):
            raise TypeError(
                f"env_class_source must be text or None, not {type(self.env_class_source).__name__}"
            )

    def to_json_bytes(self) -> bytes:
        """Return canonical JSON: sorted keys, no spaces, UTF-8. Equal metadata gives equal bytes."""
        data = {field.name: getattr(self, field.name) for field in fields(self)}
        return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()

    @classmethod
    def from_json_bytes(cls, data: bytes) -> BundleMetadata:
        """Read metadata; a source that is left out is None.

        ValueError when it is no JSON object, a key is missing or unknown, or a value of no use.
        """
        try:
            value = json.loads(bytes(data).decode("utf-8"))
        except (ValueError, RecursionError) as error:
            raise ValueError(f"bundle metadata must be a JSON object in UTF-8: {error}") from error
        if not isinstance(value, Mapping):
            raise ValueError(f"bundle metadata must be a JSON object, not {type(value).__name__}")
        known = {field.name for field in fields(cls)}
        if unknown := sorted(set(value) - known):
            raise ValueError(
                f"bundle metadata has unsupported keys {unknown}; re-bundle with a current benchmax"
            )
        value = {"env_class_source": None, **value}
        if missing := sorted(known - set(value)):
            raise ValueError(f"bundle metadata is missing {', '.join(map(repr, missing))}")
        try:
            return cls(**value)
        except TypeError as error:
            raise ValueError(f"bundle metadata is of no use: {error}") from error


def canonical_dependencies(dependencies: object) -> tuple[str, ...]:
    """Return PEP 508 dependencies in canonical form, sorted, one a distribution.

    TypeError when this is no sequence of text; ValueError for text that is no dependency
    and for a distribution that is declared more than once, whatever its markers and extras.
    """
    if isinstance(dependencies, str | bytes) or not isinstance(dependencies, Sequence):
        raise TypeError(
            f"pip dependencies must be a sequence of PEP 508 strings, not {type(dependencies).__name__}"
        )
    seen: dict[str, int] = {}
    canonical = []
    for index, text in enumerate(dependencies):
        requirement = _read_dependency(text, index)
        if requirement.name in seen:
            raise ValueError(
                f"dependency target {requirement.name!r} is declared more than once "
                f"(indexes {seen[requirement.name]} and {index}); write its versions and extras as one"
            )
        seen[requirement.name] = index
        canonical.append(str(requirement))
    return tuple(sorted(canonical))


def _read_dependency(text: object, index: int) -> Requirement:
    if not isinstance(text, str):
        raise TypeError(f"dependency at index {index} must be text, not {type(text).__name__}")
    try:
        requirement = Requirement(text)
    except InvalidRequirement as error:
        # a URL may hold a password: the text is not repeated
        raise ValueError(f"dependency at index {index} is not a valid PEP 508 requirement") from error
    requirement.name = canonicalize_name(requirement.name)
    requirement.extras = {canonicalize_name(extra) for extra in requirement.extras}
    return requirement
