"""Play a game from what the model said: its replies so far decide where it stands."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from castform_env_games.game import Game, IllegalMoveError, Result

MOST_ILLEGAL = 3
"""The last one of so many impossible moves loses the game."""
MOVE_CHARACTERS = 40
"""Longer than any move."""
_TAG = re.compile(r"<(/?)move>", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Play:
    """Where a game stands."""

    text: str
    """What the model is told next, or how the game ended."""
    legal: int
    illegal: int
    result: Result | None
    """None while it goes on."""

    @property
    def is_over(self) -> bool:
        return self.result is not None

    @property
    def turns(self) -> int:
        return self.legal + self.illegal


def replay(game: Game, replies: Iterable[str]) -> Play:
    """Return where the game stands after the replies; those after its end change nothing."""
    text, legal, illegal = game.opening(), 0, 0
    result: Result | None = None
    for reply in replies:
        if result is not None:
            break
        try:
            step = game.move(read_move(reply))
        except IllegalMoveError as error:
            illegal += 1
            text, result = _warn(str(error), illegal)
        else:
            legal += 1
            text, result = step.text, step.result
    return Play(text=text, legal=legal, illegal=illegal, result=result)


def read_move(reply: str) -> str:
    """Return the move in a reply: what the one pair of <move> tags holds, or the reply itself without any tag.

    IllegalMoveError: several pairs, an open one, or more text than a move has.
    """
    tags = list(_TAG.finditer(reply))
    if not tags:
        move = reply.strip()
    elif [tag[1] for tag in tags] == ["", "/"]:
        move = reply[tags[0].end() : tags[1].start()].strip()
    else:
        raise IllegalMoveError("Write one move, between one <move> and one </move>.")
    if not move:
        raise IllegalMoveError("There is no move in that.")
    if len(move) > MOVE_CHARACTERS:
        raise IllegalMoveError(
            "That is no move. Reply with the move alone, or put it between <move> and </move>."
        )
    return move


def play_best(game: Game) -> tuple[list[str], Play]:
    """Return the moves of the best play that is known, and how it ends."""
    moves: list[str] = []
    step = None
    while step is None or step.result is None:
        moves.append(game.suggest())
        step = game.move(moves[-1])
    return moves, Play(text=step.text, legal=len(moves), illegal=0, result=step.result)


def _warn(fault: str, illegal: int) -> tuple[str, Result | None]:
    left = MOST_ILLEGAL - illegal
    if left == 0:
        return f"{fault} That was impossible move number {MOST_ILLEGAL}: you lose.", "loss"
    return (
        f"{fault} After {left} more {'move' if left == 1 else 'moves'} like that you lose. Your move?",
        None,
    )
