"""What every check of a certification may look at."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmax.envs import Environment, Example
from castform.gold import Rendering
from castform.rollouts import Split


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckContext:
    """One environment and the examples that were drawn from it."""

    environment: Environment[Any, Any]
    make_environment: Callable[[], Environment[Any, Any]]
    """Makes another one with the same arguments; the caller closes it."""
    base_dir: Path
    """Where relative dataset paths start."""
    examples: Mapping[Split, Sequence[Example[Any]]]
    """What was loaded of each split; empty where a split has no examples."""
    split: Split
    """The split that rewards are checked on."""
    golds: Mapping[str, Any]
    """Right answers by example id of that split; None where the environment does not say."""
    rendering: Rendering
    """How the environment wants an answer written down."""
    weights: Mapping[str, float]
    seed: int
    timeout_seconds: float
    """Of one group."""
