from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from castform_env_games.config import GamesConfig, MixConfig
from castform_env_games.environment import GAMES, make_game
from castform_env_games.play import play_best
from pydantic import ValidationError

from benchmax.envs import Environment, Example
from castform.plugins import load_environment
from castform.testing import FakeModel, Reply, ScriptedRequest, ToolUse, assert_conforms

Script = Callable[[ScriptedRequest], Any]
NAMES = sorted(GAMES)


def load(name: str = "games", **args: Any) -> Environment[Any, Any]:
    return load_environment(name, args).environment


async def examples(
    environment: Environment[Any, Any], split: Any = "train", count: int | None = 3
) -> list[Example[Any]]:
    return list(await environment.create_dataset(split, Path(), max_examples=count))


async def run(
    environment: Environment[Any, Any], example: Example[Any], script: Sequence[Any] | Script
) -> tuple[Any, FakeModel]:
    async with FakeModel(script) as model:
        group = await model.run_group(environment, example)
    await environment.aclose()
    return group.rollouts[0], model


@pytest.mark.parametrize("level", [1, 2, 3])
@pytest.mark.parametrize("name", NAMES)
async def test_the_best_play_wins_and_is_paid_in_full(name: str, level: int) -> None:
    environment = load(f"games/{name}", level=level)
    for example in await examples(environment, count=2):
        gold = environment.gold(example)
        rollout, model = await run(environment, example, gold)
        assert rollout.termination_reason == "finished"
        assert set(rollout.rewards) == {"win", "quick", "legal"} | (
            {"draw"} if name == "tictactoe" else set()
        )
        assert {k: v for k, v in rollout.rewards.items() if k != "draw"} == {
            "win": 1.0,
            "quick": 1.0,
            "legal": 1.0,
        }
        assert rollout.score == pytest.approx(1.3)
        assert len(model.requests) == len(gold) == example.payload["par"]


@pytest.mark.parametrize("name", NAMES)
async def test_impossible_moves_are_told_and_the_third_one_loses(name: str) -> None:
    environment = load(f"games/{name}")
    example, *_ = await examples(environment, count=1)
    rollout, model = await run(environment, example, lambda request: "castling")
    assert len(model.requests) == 3
    assert rollout.termination_reason == "finished"
    assert set(rollout.rewards.values()) == {0.0}
    told = [request.messages[-1]["content"] for request in model.requests[1:]]
    assert "After 2 more moves like that you lose" in told[0]
    assert "After 1 more move like that you lose" in told[1]


@pytest.mark.parametrize("name", NAMES)
async def test_an_impossible_move_changes_nothing_and_costs_its_share(name: str) -> None:
    environment = load(f"games/{name}")
    example, *_ = await examples(environment, count=1)
    gold = [message["content"] for message in environment.gold(example)]
    rollout, _ = await run(environment, example, ["", *gold])
    turns = len(gold) + 1
    assert rollout.rewards["win"] == 1.0
    assert rollout.rewards["legal"] == pytest.approx(len(gold) / turns)
    assert 0.0 < rollout.rewards["quick"] < 1.0


async def test_a_move_may_stand_in_tags_with_thoughts_before_it_or_alone() -> None:
    environment = load("games/guess")
    example, *_ = await examples(environment, count=1)
    secret = example.payload["setup"]["secret"]
    for reply, wins in [
        (f"  {secret}\n", 1.0),
        (f"Perhaps 3? No.\n<MOVE> {secret} </move>.", 1.0),
        (f"My guess is {secret}", 0.0),
        (f"<move>{secret}</move><move>{secret}</move>", 0.0),
        (f"<move>{secret}", 0.0),
        (f"{secret} <move></move>", 0.0),
        (f"<move>{secret} or {secret + 1}</move>", 0.0),
        ("9" * 1_000_000, 0.0),
    ]:
        rollout, model = await run(environment, example, [reply, "x", "x", "x"])
        assert rollout.rewards["win"] == wins, reply
        assert len(model.requests) == (1 if wins else 3)


async def test_the_opponent_answers_and_siblings_meet_the_same_one() -> None:
    environment = load("games/tictactoe")
    example, *_ = await examples(environment, count=1)
    move = environment.gold(example)[0]["content"]
    heard: dict[str, str] = {}

    def script(request: ScriptedRequest) -> Any:
        if request.index == 0:
            return move
        heard.setdefault(request.session_id, request.messages[-1]["content"])
        return "0"

    async with FakeModel(script) as model:
        await model.run_group(environment, example, size=4)
    await environment.aclose()
    assert len(heard) == 4 and len(set(heard.values())) == 1
    assert "I take cell" in next(iter(heard.values()))


async def test_a_game_that_nobody_wins_is_drawn() -> None:
    environment = load("games/tictactoe")
    example, *_ = await examples(environment, count=1)
    setup = {"board": "XOXXOO.X.", "skill": 1.0}
    game = Example("drawn", {**example.payload, "setup": setup})
    rollout, _ = await run(environment, game, ["8", "9", "7"])  # 8 is taken
    assert rollout.rewards == {"win": 0.0, "draw": 1.0, "quick": 0.0, "legal": 0.5}
    assert rollout.score == pytest.approx(0.55)


async def test_losing_is_paid_for_legal_moves_alone() -> None:
    environment = load("games/guess")
    example, *_ = await examples(environment, count=1)
    setup = example.payload["setup"]
    wrong = str(setup["low"] if setup["secret"] != setup["low"] else setup["high"])
    rollout, model = await run(environment, example, lambda request: wrong)
    assert len(model.requests) == 5
    assert rollout.rewards == {"win": 0.0, "quick": 0.0, "legal": 1.0}
    assert rollout.score == pytest.approx(0.1)


async def test_a_cut_off_reply_ends_the_game_and_calls_of_tools_are_no_moves() -> None:
    environment = load("games/guess")
    example, *_ = await examples(environment, count=1)
    rollout, _ = await run(environment, example, [Reply(content="Let me think", finish_reason="length")])
    assert rollout.termination_reason == "output_exceeded"
    assert rollout.rewards == {"win": 0.0, "quick": 0.0, "legal": 0.0}
    secret = str(example.payload["setup"]["secret"])
    call = Reply(content=secret, tool_calls=[ToolUse(name="guess", arguments={"number": 1})])
    rollout, _ = await run(environment, example, [call, secret])
    assert rollout.rewards == {"win": 1.0, "quick": 1.0, "legal": 1.0}


async def test_turns_run_out_only_for_those_who_call_tools_for_ever() -> None:
    environment = load("games/guess")
    example, *_ = await examples(environment, count=1)
    call = Reply(tool_calls=[ToolUse(name="guess")])
    rollout, model = await run(environment, example, lambda request: call)
    assert (rollout.termination_reason, len(model.requests)) == ("max_turns_exceeded", 8)


@pytest.mark.parametrize("solved", [0, 1])
async def test_the_solved_game_stands_in_front_and_is_not_the_one_played(solved: int) -> None:
    for name in NAMES:
        environment = load(f"games/{name}", solved_examples=solved)
        example, *_ = await examples(environment, count=1)
        messages = example.payload["prompt_messages"]
        roles = [message["role"] for message in messages]
        assert roles == (
            ["system", "user", "assistant", "user", "assistant", "user"] if solved else ["system", "user"]
        )
        assert messages[-1]["content"].endswith(make_game(example.payload).opening())
        assert ("You win.\n\nA new game." in messages[-1]["content"]) == bool(solved)
        assert example.payload["start"] == len(messages)


async def test_the_mix_plays_its_games_in_turn() -> None:
    environment = load()
    played = [e.payload["game"] for e in await examples(environment, count=6)]
    assert played == ["guess", "nim", "tictactoe", "words", "guess", "nim"]
    chosen = load(games=["words", "guess"], train_examples=10_000)
    found = [e.payload["game"] for e in await examples(chosen, "train", None)]
    assert found[:4] == ["words", "guess", "words", "guess"]
    assert set(found[-40:]) == {"words"}  # there are fewer numbers to guess than words


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("level", [1, 2])
async def test_held_out_games_are_never_trained_on(name: str, level: int) -> None:
    environment = load(f"games/{name}", level=level, seed=level)
    keys = []
    for split in ("train", "eval"):
        found = await examples(environment, split, 30)
        assert len({e.id for e in found}) == len(found) == 30
        keys.append({GAMES[name].find_key(e.payload["setup"]) for e in found})
    assert not keys[0] & keys[1]


async def test_the_seed_decides_the_games() -> None:
    ids = [[e.id for e in await examples(load("games/nim", seed=seed), count=12)] for seed in (3, 3, 4)]
    assert ids[0] == ids[1] != ids[2]


async def test_an_environment_and_its_examples_can_be_sent_to_another_process() -> None:
    environment = pickle.loads(pickle.dumps(load("games/words")))
    example, *_ = await examples(environment, count=1)
    example = Example(example.id, json.loads(json.dumps(example.payload)))
    rollout, _ = await run(environment, example, environment.gold(example))
    assert rollout.rewards["win"] == 1.0


@pytest.mark.parametrize(
    ("args", "word"),
    [
        ({"level": 0}, "level"),
        ({"level": 4}, "level"),
        ({"seed": -1}, "seed"),
        ({"eval_examples": 0}, "eval_examples"),
        ({"games": []}, "games"),
        ({"games": ["nim", "nim"]}, "none twice"),
        ({"games": ["chess"]}, "chess"),
        ({"size": 3}, "size"),
    ],
)
def test_a_setting_out_of_bounds_is_refused(args: dict[str, Any], word: str) -> None:
    with pytest.raises(ValidationError, match=word):
        MixConfig(**args)


def test_one_game_alone_takes_no_list_of_games() -> None:
    with pytest.raises(ValidationError, match="games"):
        GamesConfig(games=["nim"])  # type: ignore[call-arg]


@pytest.mark.parametrize("name", NAMES)
def test_the_best_play_of_every_listed_game_ends_within_its_moves(name: str) -> None:
    for setup in GAMES[name].list_setups(1)[::7]:
        game = GAMES[name](setup)
        moves, play = play_best(game)
        assert len(moves) <= GAMES[name](setup).move_limit
        assert play.result in ("win", "draw")


def test_it_conforms() -> None:
    assert_conforms("games", examples=2, scripts=4)
