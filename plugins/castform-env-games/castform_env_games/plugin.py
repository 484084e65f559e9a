"""What castform reads: names and strings, nothing heavy imported."""

from __future__ import annotations

from castform.plugins import EnvironmentSpec, hookimpl

_CONFIG = "castform_env_games.config:GamesConfig"


@hookimpl
def register_environments() -> list[EnvironmentSpec]:
    return [
        EnvironmentSpec(
            name="default",
            summary="All the games in turn, or those that `games` names",
            factory="castform_env_games.environment:make_mix",
            config="castform_env_games.config:MixConfig",
            tags=("multi-turn", "games", "graded"),
        ),
        EnvironmentSpec(
            name="guess",
            summary="Find a number by guesses that are answered with higher or lower",
            factory="castform_env_games.environment:make_guess",
            config=_CONFIG,
            tags=("multi-turn", "games", "graded", "easy"),
        ),
        EnvironmentSpec(
            name="nim",
            summary="Take stones in turn with an opponent; who takes the last one wins",
            factory="castform_env_games.environment:make_nim",
            config=_CONFIG,
            tags=("multi-turn", "games", "graded"),
        ),
        EnvironmentSpec(
            name="tictactoe",
            summary="Tic-tac-toe against an opponent that errs at times",
            factory="castform_env_games.environment:make_tictactoe",
            config=_CONFIG,
            tags=("multi-turn", "games", "graded"),
        ),
        EnvironmentSpec(
            name="words",
            summary="Find a word by guesses that get a mark a letter",
            factory="castform_env_games.environment:make_words",
            config=_CONFIG,
            tags=("multi-turn", "games", "graded"),
        ),
    ]
