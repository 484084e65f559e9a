"""Tic-tac-toe from positions early in the game, against an opponent that errs at times."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import permutations

from castform_env_games.game import Game, IllegalMoveError, Result, Setup, Step

SKILL = {1: 0.0, 2: 0.5, 3: 0.9}
"""Level to the share of positions in which the opponent plays a best move; else any."""
EMPTY = "." * 9
LINES = ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6))
_TURNED = (6, 3, 0, 7, 4, 1, 8, 5, 2)
_MIRRORED = (2, 1, 0, 5, 4, 3, 8, 7, 6)
_CELL = re.compile(r"[1-9]")
_VALUE: dict[Result | None, int] = {"win": 2, "draw": 1, None: 1, "loss": 0}


class TicTacToe(Game):
    """The model plays X and is to move. Only games are asked that can be won against this opponent, where there are any."""

    name = "tictactoe"
    can_draw = True

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.board: str = setup["board"]
        self.skill: float = setup["skill"]
        self.move_limit = (self.board.count(".") + 1) // 2

    @classmethod
    def list_setups(cls, level: int) -> Sequence[Setup]:
        return [{"board": board, "skill": SKILL[level]} for board in _list_boards()]

    @classmethod
    def find_key(cls, setup: Setup) -> str:
        return min(_list_symmetric(setup["board"]))

    @classmethod
    def demo(cls, level: int) -> tuple[Setup, Sequence[str]]:
        return {"board": "XXOX.OO..", "skill": 0.0}, ["5", "9"]

    def opening(self) -> str:
        start = "Tic-tac-toe: three in a row, a column or a diagonal win. You are X, I am O. A free cell shows its number.\n\n"
        return f"{start}{self._show()}\n\nYour cell?"

    def move(self, text: str) -> Step:
        if not _CELL.fullmatch(text):
            raise IllegalMoveError("A move is one number from 1 to 9: the cell that you take.")
        cell = int(text) - 1
        if self.board[cell] != ".":
            raise IllegalMoveError(f"Cell {text} is taken.")
        self.board = _put(self.board, cell, "X")
        result = _result(self.board)
        if result is None:
            cell = self._answer(self.board)
            self.board = _put(self.board, cell, "O")
            result = _result(self.board)
            told = f"I take cell {cell + 1}."
        else:
            told = ""
        if result is None:
            return Step(text=f"{told}\n\n{self._show()}\n\nYour cell?")
        ends = {"win": "You win.", "draw": "Nobody wins.", "loss": "You lose."}
        return Step(text=f"{told} {ends[result]}".strip(), result=result)

    def suggest(self) -> str:
        """Return the cell that does best against this very opponent, soonest where several do."""
        return str(max(_free(self.board), key=lambda cell: self._worth(_put(self.board, cell, "X"))) + 1)

    def _worth(self, board: str) -> tuple[int, int]:
        """Return (value of the end that X reaches from a board with O to move, minus the moves until then)."""
        result = _result(board)
        if result is None:
            board = _put(board, self._answer(board), "O")
            result = _result(board)
        if result is not None:
            return _VALUE[result], board.count(".")
        return max(self._worth(_put(board, cell, "X")) for cell in _free(board))

    def _answer(self, board: str) -> int:
        chance = self.chance(board)
        if chance.random() < self.skill:
            worst = min(_solve(_put(board, cell, "O"), "X") for cell in _free(board))
            return next(cell for cell in _free(board) if _solve(_put(board, cell, "O"), "X") == worst)
        return chance.choice(list(_free(board)))

    def _show(self) -> str:
        cells = [mark if mark != "." else str(place) for place, mark in enumerate(self.board, start=1)]
        return "\n".join(" | ".join(cells[row : row + 3]) for row in (0, 3, 6))


def _free(board: str) -> Iterator[int]:
    return (cell for cell, mark in enumerate(board) if mark == ".")


def _put(board: str, cell: int, mark: str) -> str:
    return board[:cell] + mark + board[cell + 1 :]


def _result(board: str) -> Result | None:
    """Return how the game ended for X, None while it goes on."""
    for first, second, third in LINES:
        if board[first] == board[second] == board[third] != ".":
            return "win" if board[first] == "X" else "loss"
    return None if "." in board else "draw"


@cache
def _solve(board: str, mover: str) -> int:
    """Return the value for X under best play of both."""
    result = _result(board)
    if result is not None:
        return _VALUE[result]
    values = [_solve(_put(board, cell, mover), "O" if mover == "X" else "X") for cell in _free(board)]
    return max(values) if mover == "X" else min(values)


def _list_boards() -> list[str]:
    """Return the boards with up to two marks of each player and nothing decided, X to move."""
    boards = {EMPTY}
    boards |= {_put(_put(EMPTY, x, "X"), o, "O") for x, o in permutations(range(9), 2)}
    for x1, x2, o1, o2 in permutations(range(9), 4):
        if x1 < x2 and o1 < o2:
            boards.add(_put(_put(_put(_put(EMPTY, x1, "X"), x2, "X"), o1, "O"), o2, "O"))
    return sorted(boards)


def _list_symmetric(board: str) -> Iterator[str]:
    """Yield the board turned and mirrored in all eight ways."""
    for _ in range(4):
        yield board
        yield "".join(board[cell] for cell in _MIRRORED)
        board = "".join(board[cell] for cell in _TURNED)
