"""What a game is: a position that answers moves in words. Nothing in it is left to chance or to the clock."""

from __future__ import annotations

import hashlib
import json
import random
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

Result = Literal["win", "draw", "loss"]
"""Of the model."""
Setup = Mapping[str, Any]
"""How a game begins, as JSON; everything that happens later follows from it and from the moves."""


class IllegalMoveError(ValueError):
    """The move cannot be made; the message is for the model."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """What a move led to, the opponent's answer included."""

    text: str
    """What the model is told."""
    result: Result | None = None
    """None: the game goes on."""


class Game(ABC):
    """One game between the model and the computer."""

    name: ClassVar[str]
    can_draw: ClassVar[bool] = False
    move_limit: int
    """Most legal moves of the model; the game is over by then."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup

    @classmethod
    @abstractmethod
    def list_setups(cls, level: int) -> Sequence[Setup]:
        """Return all games of a level, in a fixed order."""

    @classmethod
    @abstractmethod
    def demo(cls, level: int) -> tuple[Setup, Sequence[str]]:
        """Return a game that is not in the list, and moves that win it."""

    @classmethod
    def find_key(cls, setup: Setup) -> str:
        """Return what decides the side of the split: games with the same key lie on the same side."""
        return json.dumps(dict(setup), sort_keys=True)

    @abstractmethod
    def opening(self) -> str:
        """Return the rules and the first position."""

    @abstractmethod
    def move(self, text: str) -> Step:
        """Make a move and let the opponent answer. IllegalMoveError: nothing has changed."""

    @abstractmethod
    def suggest(self) -> str:
        """Return a move of the best play that is known."""

    def chance(self, position: object) -> random.Random:
        """Return the opponent's dice at a position: the same in every attempt."""
        return random.Random(
            f"castform-env-games:{self.name}:{json.dumps(dict(self.setup), sort_keys=True)}:{position}"
        )


def is_held_out(name: str, key: str, share: float) -> bool:
    """Say whether the games of a key are for evaluation alone. A hash decides, so no seed or size changes it."""
    digest = hashlib.sha256(f"castform-env-games:{name}:{key}".encode()).digest()
    return int.from_bytes(digest[:8], "big") < share * 2**64
