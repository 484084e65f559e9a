"""What a user can set."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

GameName = Literal["guess", "nim", "tictactoe", "words"]


class GamesConfig(BaseModel):
    """Level, sizes and seed. Which games are held out depends on none but the level."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    level: int = Field(1, ge=1, le=3)
    """From 1, the easiest, to 3."""
    seed: int = Field(0, ge=0, lt=2**31)
    """Decides which games are drawn, and their order."""
    train_examples: int = Field(400, ge=1, le=10_000)
    """Most games to train on. A level that has fewer gives all it has."""
    eval_examples: int = Field(100, ge=1, le=10_000)
    """Most held-out games."""
    solved_examples: int = Field(1, ge=0, le=1)
    """A game that is won in front of the one that is played. A small model needs it to find the form of a move."""


class MixConfig(GamesConfig):
    games: tuple[GameName, ...] = ("guess", "nim", "tictactoe", "words")
    """Which games are played, in turn."""

    @field_validator("games")
    @classmethod
    def _each_once(cls, games: tuple[GameName, ...]) -> tuple[GameName, ...]:
        if not games or len(set(games)) != len(games):
            raise ValueError("name at least one game, and none twice")
        return games
