"""What registration hooks return: frozen descriptions, factories as `"module:attribute"` strings.

A spec is checked where it is made, so a wrong one is the fault of the hook that made it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from castform.errors import CastformError
from castform.plugins.names import is_name

_REFERENCE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
MAX_SUMMARY = 120
"""Characters; a listing has one line for it."""


class SpecError(CastformError):
    """A plugin describes something in a way that cannot be used."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Spec:
    """What every description has."""

    kind: ClassVar[str] = "spec"

    name: str
    """Without the plugin's own name: the core adds `<plugin>/`."""
    summary: str
    """One line for listings, at most 120 characters."""
    factory: str
    """`module:attribute`, imported when it is used."""
    config: str | None = None
    """`module:attribute` of a pydantic model. With it the factory gets one argument, the validated
    model; without it the user's arguments as keywords."""
    requires: tuple[str, ...] = ()
    """Extras of the plugin's own distribution that must be installed for it."""
    tags: tuple[str, ...] = ()
    """Free words for listings."""

    def __post_init__(self) -> None:
        what = f"{self.kind} {self.name!r}"
        if not isinstance(self.name, str) or not is_name(self.name):
            raise SpecError(
                f"{what} has no usable name",
                hint="names are letters, digits, '-', '_' and '.', without the plugin's own name",
            )
        if not isinstance(self.summary, str) or not self.summary.strip() or "\n" in self.summary:
            raise SpecError(f"{what}: summary must be one line of text, not {self.summary!r}")
        if len(self.summary) > MAX_SUMMARY:
            raise SpecError(f"{what}: summary has {len(self.summary)} characters, at most {MAX_SUMMARY} fit")
        for field, value in (("factory", self.factory), ("config", self.config)):
            if field == "config" and value is None:
                continue
            if not isinstance(value, str) or not _REFERENCE.fullmatch(value):
                raise SpecError(
                    f"{what}: {field} is {value!r}, not a 'module:attribute' string",
                    hint="give the name of the object, so that registering imports nothing",
                )
        for field, words in (("requires", self.requires), ("tags", self.tags)):
            if not isinstance(words, tuple) or not all(isinstance(w, str) and w.strip() for w in words):
                raise SpecError(f"{what}: {field} is {words!r}, not a tuple of words")

    def as_dict(self) -> dict[str, Any]:
        """Return plain data, of which `from_dict` makes the same description again."""
        return {
            "name": self.name,
            "summary": self.summary,
            "factory": self.factory,
            "config": self.config,
            "requires": list(self.requires),
            "tags": list(self.tags),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the description that `as_dict` was asked of. SpecError as for any that is made."""
        return cls(**{**data, "requires": tuple(data["requires"]), "tags": tuple(data["tags"])})


class EnvironmentSpec(Spec):
    """An environment. The factory returns a `benchmax.envs.Environment`."""

    __slots__ = ()
    kind = "environment"


class DatasetSpec(Spec):
    """A dataset. The factory's result has `create(split, base_dir, *, max_examples)`, plain or async.

    It returns Examples whose payloads are mappings, or mappings: the rows of a split.
    """

    __slots__ = ()
    kind = "dataset"


class ToolSpec(Spec):
    """A tool. The factory returns a function whose signature and docstring are the tool's schema.

    It may as well return a FunctionTool, a class whose public methods are tools (an instance a
    rollout), or a ToolSource.
    """

    __slots__ = ()
    kind = "tool"


class RewardSpec(Spec):
    """A reward. The factory is the function itself: `function(completion, **fields)`, which returns a number.

    The completion is the text of the last message where its annotation is `str`, else the messages
    after the prompt; further parameters are fields of the row by name (docs/composing.md).
    """

    __slots__ = ()
    kind = "reward"


class RubricSpec(Spec):
    """A rubric for a judge. The factory returns a `benchmax.rewards.Rubric`."""

    __slots__ = ()
    kind = "rubric"


class SandboxSpec(Spec):
    """A place to run untrusted programs in. The factory returns a provider of sandboxes."""

    __slots__ = ()
    kind = "sandbox"


class HarnessSpec(Spec):
    """An agent program that works on an example inside a sandbox."""

    __slots__ = ()
    kind = "harness"


class EngineSpec(Spec):
    """What samples tokens. The factory takes (RunConfig, ModelFolder) and returns an Engine."""

    __slots__ = ()
    kind = "engine"
