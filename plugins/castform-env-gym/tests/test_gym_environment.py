from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from benchmax.envs import BaseRollout, Example
from castform.plugins import PluginFailure, load_environment
from castform.testing import FakeModel

GymConfig = pytest.importorskip(
    "castform_env_gym.config", reason="without a C compiler castform-env-gym is not installed"
).GymConfig
draws = pytest.importorskip(
    "castform_env_gym.draws", reason="without a C compiler castform-env-gym is not installed"
)
names = pytest.importorskip(
    "castform_env_gym.names", reason="without a C compiler castform-env-gym is not installed"
)
GIVE_UP_AFTER, Draws, hash_question, split_of = (
    draws.GIVE_UP_AFTER,
    draws.Draws,
    draws.hash_question,
    draws.split_of,
)
DATASETS, NO_GOLD = names.DATASETS, names.NO_GOLD

SLOW_TO_MAKE = {
    "knight_swap",
    "futoshiki",
    "zebra_puzzles",
    "sokoban",
    "puzzle24",
    "intermediate_integration",
}


def load(name: str, **args: Any):
    return load_environment(f"gym/{name}", args).environment


def draw(environment, split: str = "train", count: int | None = None) -> list[Example[Mapping[str, Any]]]:
    return list(asyncio.run(environment.create_dataset(split, Path(), max_examples=count)))


def pay(environment, example, reply: str) -> float:
    payload = json.loads(json.dumps(example.payload))
    rollout = BaseRollout(
        rollout_id="r",
        termination_reason="finished",
        messages=[*payload["prompt_messages"], {"role": "assistant", "content": reply}],
        example_args={"entry": payload["entry"]},
    )
    rewards = asyncio.run(environment.compute_reward(rollout))
    assert list(rewards) == ["correct"]
    return rewards["correct"]


@pytest.mark.parametrize("name", sorted(DATASETS.keys() - SLOW_TO_MAKE))
def test_every_dataset_survives_json_and_its_right_answer_is_paid(name: str) -> None:
    environment = load(name)
    for example in draw(environment, count=2):
        gold = environment.gold(example)
        assert (gold is None) == (name in NO_GOLD)
        if gold is not None:
            assert pay(environment, example, f"I think so.\n<answer>\n{gold}\n</answer>") == 1.0


def test_the_one_pair_of_tags_is_scored_and_nothing_else() -> None:
    environment = load("leg_counting")
    (example,) = draw(environment, count=1)
    gold = environment.gold(example)
    assert pay(environment, example, f"<answer>{gold}</answer>") == 1.0
    assert pay(environment, example, f"Well: <ANSWER> {gold} </ANSWER>, yes") == 1.0
    assert pay(environment, example, gold) == 0.0
    assert pay(environment, example, f"<answer>{gold}") == 0.0
    assert pay(environment, example, f"<answer>{gold}</answer><answer>{gold}</answer>") == 0.0
    assert pay(environment, example, "") == 0.0
    # What the dataset's own scorer gives a longer text that holds the answer.
    assert pay(environment, example, f"<answer>{gold} legs</answer>") == len(gold) / len(f"{gold} legs")


def test_as_text_the_whole_reply_goes_to_the_scorer_without_the_space_around_it() -> None:
    environment = load("leg_counting", answer="text")
    (example,) = draw(environment, count=1)
    gold = environment.gold(example)
    assert "alone" in example.payload["prompt_messages"][0]["content"]
    assert pay(environment, example, gold) == 1.0
    assert pay(environment, example, f" {gold}\n") == 1.0
    assert pay(environment, example, f"{gold}.") == len(gold) / (len(gold) + 1)


async def test_what_a_scorer_raises_is_a_reward_error_and_costs_no_sibling() -> None:
    environment = load("prime_factorization")
    (example,) = await environment.create_dataset("train", Path(), max_examples=1)
    replies = ["<answer>no idea</answer>", f"<answer>{environment.gold(example)}</answer>"]
    async with FakeModel(lambda request: replies[int(request.session_id[-1])]) as model:
        group = await model.run_group(environment, example, size=2)
    await environment.aclose()
    broken, right = group.rollouts
    assert (broken.termination_reason, broken.score) == ("reward_error", None)
    assert "ValueError" in (broken.error or "")
    assert right.rewards == {"correct": 1.0}


@pytest.mark.parametrize("name", ["coin_flip", "tower_of_hanoi", "codeio", "pool_matrix", "leg_counting"])
def test_a_held_out_question_is_never_asked_in_training_whatever_the_seed(name: str) -> None:
    sides: dict[str, set[str]] = {"train": set(), "eval": set()}
    for seed in (0, 1):
        environment = load(name, seed=seed, train_examples=60, eval_examples=40)
        for split, seen in sides.items():
            examples = draw(environment, split)
            questions = [e.payload["prompt_messages"][-1]["content"] for e in examples]
            assert len(set(questions)) == len(questions) == len({e.id for e in examples}) > 10
            seen |= set(questions)
    assert not sides["train"] & sides["eval"]


def test_ids_depend_on_the_question_alone() -> None:
    first = [e.id for e in draw(load("leg_counting"), count=3)]
    assert first == [e.id for e in draw(load("leg_counting", eval_examples=1), count=40)][:3]
    assert all(
        e.id == hash_question(e.payload["entry"]["question"])[:16] for e in draw(load("gcd"), "eval", 3)
    )
    assert [e.id for e in draw(load("leg_counting", seed=1), count=3)] != first
    assert [e.id for e in draw(load("leg_counting"), count=2)] == FIRST_IDS


FIRST_IDS = ["cbe1e07013cf58ab", "0b3fe08694c7aeec"]


@pytest.mark.parametrize("name", ["codeio", "list_functions", "pool_matrix"])
def test_global_randomness_neither_changes_the_questions_nor_is_changed(name: str) -> None:
    drawn = []
    for seed in (1, 2):
        random.seed(seed)
        np.random.seed(seed)
        before = random.getstate(), np.random.get_state()[1].tolist()
        drawn.append([e.payload for e in draw(load(name), count=4)])
        assert (random.getstate(), np.random.get_state()[1].tolist()) == before
    assert drawn[0] == drawn[1]


def test_a_small_dataset_gives_all_it_has_and_then_stops() -> None:
    class Small:
        def __getitem__(self, index: int) -> dict[str, Any]:
            made.append(index)
            return {"question": f"q{index % 5}", "answer": "", "metadata": {}}

    made: list[int] = []
    draws = Draws(lambda seed, size: Small(), seed=0)
    sides = {
        split: {f"q{n}" for n in range(5) if split_of(hash_question(f"q{n}")) == split}
        for split in ("train", "eval")
    }
    assert {entry["question"] for entry in draws.take("train", 50).values()} == sides["train"]
    assert GIVE_UP_AFTER <= len(made) <= GIVE_UP_AFTER + 5
    assert {entry["question"] for entry in draws.take("eval", 50).values()} == sides["eval"]


def test_about_four_in_ten_questions_are_held_out() -> None:
    held_out = sum(split_of(hash_question(f"q{n}")) == "eval" for n in range(4000)) / 4000
    assert 0.37 < held_out < 0.43


def test_sizes_are_limits_and_max_examples_cuts_further() -> None:
    environment = load("gcd", train_examples=5, eval_examples=3)
    assert [len(draw(environment)), len(draw(environment, "eval")), len(draw(environment, count=2))] == [
        5,
        3,
        2,
    ]
    with pytest.raises(ValueError, match="max_examples"):
        draw(environment, count=0)


def test_the_datasets_own_options_are_passed_on() -> None:
    environment = load("gcd", options={"min_numbers": 4, "max_numbers": 4})
    for example in draw(environment, count=5):
        assert example.payload["entry"]["metadata"]["num_terms"] == 4


@pytest.mark.parametrize("options", [{"no_such": 1}, {"min_numbers": 9, "max_numbers": 2}])
def test_options_that_the_dataset_does_not_take_are_refused_before_anything_runs(options) -> None:
    with pytest.raises(PluginFailure, match=r"gcd of reasoning-gym .* does not take the options"):
        load("gcd", options=options)


@pytest.mark.parametrize(
    ("args", "word"),
    [
        ({"options": {"seed": 1}}, "seed cannot be set here"),
        ({"options": {"size": 1, "seed": 2}}, "seed and size"),
        ({"answer": "box"}, "answer"),
        ({"seed": -1}, "seed"),
        ({"train_examples": 0}, "train_examples"),
    ],
)
def test_a_setting_out_of_bounds_is_refused(args: dict[str, Any], word: str) -> None:
    with pytest.raises(ValidationError, match=word):
        GymConfig(**args)


def test_an_example_says_which_version_made_it() -> None:
    (example,) = draw(load("gcd"), count=1)
    assert example.payload["source"].startswith("reasoning-gym 0.")
