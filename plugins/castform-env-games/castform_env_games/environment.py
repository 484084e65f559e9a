"""A game over several turns: the model moves, the opponent answers, the end is paid."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from types import MappingProxyType
from typing import Any

from benchmax.envs import BaseEnv, BaseRollout, Dataset, DatasetSplit, Example, Message, RewardMap
from benchmax.envs.dataset import validate_max_examples
from benchmax.rewards.deterministic.completion import is_assistant, message_text
from castform_env_games.config import GamesConfig, MixConfig
from castform_env_games.game import Game, Setup, is_held_out
from castform_env_games.guess import Guess
from castform_env_games.nim import Nim
from castform_env_games.play import MOST_ILLEGAL, Play, play_best, replay
from castform_env_games.tictactoe import TicTacToe
from castform_env_games.wordgame import WordGame

GAMES: Mapping[str, type[Game]] = MappingProxyType(
    {game.name: game for game in (Guess, Nim, TicTacToe, WordGame)}
)
HELD_OUT_SHARE = 0.4
"""Share of the games that only evaluation sees."""
SYSTEM = "You play a game. Reply with your move alone. If you think aloud, put the move between <move> and </move>."


class GameEnv(BaseEnv):
    """Games of one or several kinds. A rollout's state is its transcript: the game is played again from it."""

    reward_weights = MappingProxyType({"win": 1.0, "draw": 0.5, "quick": 0.2, "legal": 0.1})

    def __init__(self, config: GamesConfig, games: Sequence[type[Game]]) -> None:
        self.config = config
        self.games = tuple(games)
        self.can_draw = any(game.can_draw for game in games)
        super().__init__(max_turns=MOST_ILLEGAL + max(_most_moves(game, config.level) for game in games))

    async def create_dataset(
        self, split: DatasetSplit, base_dir: Path, *, max_examples: int | None = None
    ) -> Dataset[Mapping[str, Any]]:
        validate_max_examples(max_examples)
        config = self.config
        size = config.train_examples if split == "train" else config.eval_examples
        size = size if max_examples is None else min(size, max_examples)
        each = [_draw(game, config, split) for game in self.games]
        in_turn = (example for row in zip_longest(*each) for example in row if example is not None)
        return Dataset([example for example, _ in zip(in_turn, range(size), strict=False)])

    async def next_messages(self, rollout: BaseRollout) -> Sequence[Message] | None:
        """Return the opponent's answer to the last move; None when the game is over."""
        play = read_play(rollout)
        return None if play.is_over else [{"role": "user", "content": play.text}]

    async def compute_reward(self, rollout: BaseRollout) -> RewardMap:
        play = read_play(rollout)
        draw = {"draw": float(play.result == "draw")} if self.can_draw else {}
        return {
            "win": float(play.result == "win"),
            **draw,
            "quick": quick_reward(play, par=rollout.example_args["par"], most_turns=_most_turns(rollout)),
            "legal": play.legal / play.turns if play.turns else 0.0,
        }

    def gold(self, example: Example[Mapping[str, Any]]) -> list[dict[str, str]]:
        """Return the moves of the best play against this game's opponent, as a model would make them."""
        moves, _ = play_best(make_game(example.payload))
        return [{"role": "assistant", "content": move} for move in moves]


def make_game(payload: Mapping[str, Any]) -> Game:
    """Return an example's game at its beginning."""
    return GAMES[payload["game"]](payload["setup"])


def read_play(rollout: BaseRollout) -> Play:
    """Return where a rollout's game stands. Calls of tools that do not exist are no moves."""
    said = rollout.messages[rollout.example_args["start"] :]
    replies = [message_text(m) for m in said if is_assistant(m) and not m.get("tool_calls")]
    return replay(make_game(rollout.example_args), replies)


def quick_reward(play: Play, *, par: int, most_turns: int) -> float:
    """Return 1 for a win in `par` turns or fewer, the less the more turns it took, 0 without a win."""
    if play.result != "win":
        return 0.0
    return 1.0 - max(0, play.turns - par) / (most_turns + 1 - par)


def _draw(game: type[Game], config: GamesConfig, split: DatasetSplit) -> Iterator[Example[Mapping[str, Any]]]:
    """Yield the games of a split that the best play wins, drawn where it can only draw."""
    setups = [
        setup
        for setup in game.list_setups(config.level)
        if is_held_out(game.name, game.find_key(setup), HELD_OUT_SHARE) == (split == "eval")
    ]
    random.Random(f"{config.seed}:{game.name}:{config.level}").shuffle(setups)
    shown = demo_messages(game, config.level) if config.solved_examples else []
    for setup in setups:
        moves, play = play_best(game(setup))
        if play.result == "win":
            yield _make_example(game, setup, config, shown, par=len(moves))


def _make_example(
    game: type[Game], setup: Setup, config: GamesConfig, shown: Sequence[Message], *, par: int
) -> Example[Mapping[str, Any]]:
    opening = game(setup).opening()
    messages = [{"role": "system", "content": SYSTEM}, *shown]
    if shown:
        messages[-1] = {**messages[-1], "content": f"{messages[-1]['content']}\n\nA new game. {opening}"}
    else:
        messages.append({"role": "user", "content": opening})
    key = "-".join(
        _short(value) for value in setup.values() if not isinstance(value, (float, bool, type(None)))
    )
    return Example(
        id=f"{game.name}{config.level}-{key}",
        payload={
            "prompt_messages": messages,
            "game": game.name,
            "setup": dict(setup),
            "start": len(messages),
            "par": par,
        },
    )


def _short(value: object) -> str:
    return "+".join(map(str, value)) if isinstance(value, list) else str(value)


def demo_messages(game: type[Game], level: int) -> list[Message]:
    """Return a game that is won, from its opening to how it ended."""
    setup, moves = game.demo(level)
    played = game(setup)
    messages: list[Message] = [{"role": "user", "content": played.opening()}]
    for move in moves:
        messages.append({"role": "assistant", "content": move})
        messages.append({"role": "user", "content": played.move(move).text})
    return messages


def _most_moves(game: type[Game], level: int) -> int:
    return max(game(setup).move_limit for setup in game.list_setups(level))


def _most_turns(rollout: BaseRollout) -> int:
    return make_game(rollout.example_args).move_limit + MOST_ILLEGAL - 1


def make_guess(config: GamesConfig) -> GameEnv:
    return GameEnv(config, [Guess])


def make_nim(config: GamesConfig) -> GameEnv:
    return GameEnv(config, [Nim])


def make_tictactoe(config: GamesConfig) -> GameEnv:
    return GameEnv(config, [TicTacToe])


def make_words(config: GamesConfig) -> GameEnv:
    return GameEnv(config, [WordGame])


def make_mix(config: MixConfig) -> GameEnv:
    return GameEnv(config, [GAMES[name] for name in config.games])
