from __future__ import annotations

import random
from typing import Any

import pytest
from castform_env_games.environment import GAMES
from castform_env_games.game import Game, IllegalMoveError
from castform_env_games.guess import Guess
from castform_env_games.nim import Nim
from castform_env_games.play import replay
from castform_env_games.tictactoe import TicTacToe
from castform_env_games.wordgame import WordGame, list_words, mark_guess
from hypothesis import given, settings
from hypothesis import strategies as st


def guess(*, tells_range: bool = False) -> Guess:
    return Guess({"low": 1, "high": 10, "secret": 7, "guesses": 3, "tells_range": tells_range})


def test_a_guess_is_answered_and_the_last_wrong_one_loses() -> None:
    game = guess()
    assert game.opening() == "I am thinking of a whole number from 1 to 10. You have 3 guesses. Your guess?"
    assert game.move("4").text == "Higher than 4. Guesses left: 2. Your guess?"
    assert game.move("9").text == "Lower than 9. Guesses left: 1. Your guess?"
    lost = game.move("8")
    assert (lost.result, lost.text) == ("loss", "No, it is 7. You lose.")
    assert guess().move("7").result == "win"
    kind = guess(tells_range=True)
    assert kind.move("4").text == "Higher than 4. It is from 5 to 10. Guesses left: 2. Your guess?"
    assert kind.move("2").text.startswith("Higher than 2. It is from 5 to 10.")


@pytest.mark.parametrize(
    ("game", "moves"),
    [
        (guess(), ["", "seven", "0", "11", "7.5", "-7", "٧", "7 8"]),
        (Nim({"heaps": [5], "most": 3, "skill": 1.0}), ["0", "4", "-1", "x", "1 1", "1.0"]),
        (
            Nim({"heaps": [5, 0], "most": None, "skill": 1.0}),
            ["1", "2 1", "3 1", "0 1", "1 6", "1 0", "1 1 1"],
        ),
        (TicTacToe({"board": "X...O....", "skill": 0.0}), ["0", "1", "5", "10", "b2", ""]),
        (WordGame({"word": "cat", "first": "cot", "guesses": 3}), ["", "ca", "cats", "c4t", "çat", "c t"]),
    ],
)
def test_moves_that_cannot_be_made_are_refused_and_change_nothing(game: Game, moves: list[str]) -> None:
    before = game.opening()
    for move in moves:
        with pytest.raises(IllegalMoveError) as caught:
            game.move(move)
        assert len(str(caught.value)) > 10
    assert game.opening() == before


def test_the_end_of_a_game_is_its_end() -> None:
    play = replay(guess(), ["x", "7", "y", "z"])
    assert (play.result, play.legal, play.illegal, play.text) == ("win", 1, 1, "Yes, it is 7. You win.")
    lost = replay(guess(), ["x", "x", "x", "7"])
    assert (lost.result, lost.legal, lost.illegal) == ("loss", 0, 3)
    assert "impossible move number 3: you lose" in lost.text
    fresh = replay(guess(), [])
    assert (fresh.result, fresh.turns, fresh.text) == (None, 0, guess().opening())


def test_nim_takes_turns_and_says_what_is_left() -> None:
    game = Nim({"heaps": [6], "most": 3, "skill": 1.0})
    assert "There are 6 stones. In turn we take from 1 to 3" in game.opening()
    step = game.move("2")  # 4 are left: whatever the opponent takes, the model wins
    taken = int(step.text.split()[2].rstrip("."))
    assert step.text.endswith(f"Left: {4 - taken} stone{'s' if taken < 3 else ''}. How many do you take?")
    assert game.move(str(4 - taken)).text == "You took the last stone. You win."
    perfect = Nim({"heaps": [6], "most": 3, "skill": 1.0})
    assert "I take 1." in perfect.move("1").text  # to leave 4


def test_heaps_are_named_and_a_skilled_opponent_never_lets_go() -> None:
    game = Nim({"heaps": [3, 2], "most": None, "skill": 1.0})
    assert "heap 1 with 3, heap 2 with 2" in game.opening()
    assert "from heap" in game.move("1 2").text
    while True:
        heap = next(place for place, stones in enumerate(game.heaps, start=1) if stones)
        step = game.move(f"{heap} 1")
        if step.result is not None:
            break
    assert (step.result, game.heaps) == ("loss", [0, 0])


def test_three_in_a_row_win_for_whoever_has_them() -> None:
    assert TicTacToe({"board": "XX.OO....", "skill": 1.0}).move("3").result == "win"
    lost = TicTacToe({"board": "X.XOO....", "skill": 1.0}).move("9")
    assert (lost.result, lost.text) == ("loss", "I take cell 6. You lose.")
    board = TicTacToe({"board": "X...O....", "skill": 0.0}).opening()
    assert "X | 2 | 3\n4 | O | 6\n7 | 8 | 9" in board


def test_a_perfect_opponent_never_loses() -> None:
    chance = random.Random(1)
    for _ in range(40):
        game = TicTacToe({"board": ".........", "skill": 1.0})
        step = None
        while step is None or step.result is None:
            step = game.move(str(chance.choice([c for c, mark in enumerate(game.board, 1) if mark == "."])))
        assert step.result in ("draw", "loss")


@pytest.mark.parametrize(
    ("said", "secret", "marks"),
    [
        ("cat", "cat", "+++"),
        ("act", "cat", "??+"),
        ("dog", "cat", "---"),
        ("eee", "bed", "-+-"),
        ("seals", "spell", "+?-+-"),
        ("llama", "label", "+??--"),
    ],
)
def test_letters_are_marked_as_often_as_the_word_has_them(said: str, secret: str, marks: str) -> None:
    assert mark_guess(said, secret) == marks


@settings(deadline=None, max_examples=80)
@given(st.text("abc", min_size=4, max_size=4), st.text("abc", min_size=4, max_size=4))
def test_marks_count_the_letters_that_both_words_have(said: str, secret: str) -> None:
    marks = mark_guess(said, secret)
    shared = sum(min(said.count(letter), secret.count(letter)) for letter in "abc")
    assert marks.count("+") + marks.count("?") == shared
    assert [mark == "+" for mark in marks] == [a == b for a, b in zip(said, secret, strict=True)]


def test_a_word_is_told_by_its_marks() -> None:
    game = WordGame({"word": "cat", "first": "cot", "guesses": 2})
    assert "cot: +-+\nYou have 2 guesses" in game.opening()
    assert game.move("CAB").text == "cab: ++-\nGuesses left: 1. Your guess?"
    assert game.move("car").text == "No, it is cat. You lose."
    assert [len(list_words(letters)) for letters in (3, 4, 5)] == [172, 277, 313]


@pytest.mark.parametrize("level", [1, 2, 3])
@pytest.mark.parametrize("name", sorted(GAMES))
def test_the_solved_game_is_won_and_is_none_of_those_that_are_played(name: str, level: int) -> None:
    setup, moves = GAMES[name].demo(level)
    play = replay(GAMES[name](setup), moves)
    assert (play.result, play.legal, play.illegal) == ("win", len(moves), 0)
    assert dict(setup) not in [dict(listed) for listed in GAMES[name].list_setups(level)]


@pytest.mark.parametrize("name", sorted(GAMES))
def test_global_randomness_neither_decides_a_game_nor_is_changed(name: str) -> None:
    told: list[Any] = []
    for seed in (1, 2):
        random.seed(seed)
        state = random.getstate()
        game = GAMES[name](GAMES[name].list_setups(2)[5])
        told.append(game.move(game.suggest()).text)
        assert random.getstate() == state
    assert told[0] == told[1]


def test_boards_that_are_turned_or_mirrored_lie_on_one_side() -> None:
    keys = {
        TicTacToe.find_key({"board": board}) for board in ("XO.......", ".OX......", "......XO.", "..X..O...")
    }
    assert keys == {TicTacToe.find_key({"board": "..X..O..."})}
    assert len({TicTacToe.find_key(setup) for setup in TicTacToe.list_setups(1)}) < 150
    assert Nim.find_key({"heaps": [3, 1], "most": None}) == Nim.find_key({"heaps": [1, 3], "most": None})
