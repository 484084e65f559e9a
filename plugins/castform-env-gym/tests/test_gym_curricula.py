from __future__ import annotations

import asyncio
import json
import pickle
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from castform.plugins import CommandGroup, PluginFailure, UsageError, load_environment
from castform.testing import FakeModel, assert_conforms

curricula = pytest.importorskip(
    "castform_env_gym.curricula", reason="without a C compiler castform-env-gym is not installed"
)
config = pytest.importorskip(
    "castform_env_gym.config", reason="without a C compiler castform-env-gym is not installed"
)
mix = pytest.importorskip(
    "castform_env_gym.mix", reason="without a C compiler castform-env-gym is not installed"
)
levels = pytest.importorskip(
    "castform_env_gym.levels", reason="without a C compiler castform-env-gym is not installed"
)
plugin = pytest.importorskip(
    "castform_env_gym.plugin", reason="without a C compiler castform-env-gym is not installed"
)
find_options = curricula.find_options


def load(name: str, **args: Any) -> Any:
    return load_environment(f"gym/{name}", args).environment


def draw(environment: Any, split: str = "train", count: int | None = None) -> list[Any]:
    return list(asyncio.run(environment.create_dataset(split, Path(), max_examples=count)))


@pytest.mark.parametrize(
    ("level", "span", "animals", "instances"),
    [
        (0, "up_to", (1, 1), (2, 4)),
        (3, "up_to", (1, 4), (2, 32)),
        (3, "only", (4, 4), (16, 32)),
        (35, "only", (36, 36), (512, 1024)),
        ("easy", "up_to", (1, 1), (2, 4)),
        ("medium", "only", (18, 18), (512, 1024)),
        ("hard", "up_to", (1, 36), (2, 1024)),
        ({"num_animals": 2}, "only", (3, 3), (2, 4)),
        ({"num_instances": "hard"}, "up_to", (1, 1), (2, 1024)),
    ],
)
def test_a_level_becomes_the_datasets_options(level: Any, span: Any, animals: Any, instances: Any) -> None:
    options = find_options("leg_counting", level, span)
    assert options == {
        "min_animals": animals[0],
        "max_animals": animals[1],
        "min_instances": instances[0],
        "max_instances": instances[1],
    }


@pytest.mark.parametrize(
    ("dataset", "level", "words"),
    [
        ("leg_counting", 36, ["no level 36", "levels 0 to 35", "num_instances: 2, 4, 8"]),
        ("leg_counting", {"num_animal": 1}, ["did you mean 'num_animals'?", "num_animals: 1, 2"]),
        ("leg_counting", {"num_instances": 10}, ["no level 10"]),
        ("gsm_symbolic", 1, ["gsm_symbolic has no levels"]),
    ],
)
def test_a_level_that_is_none_is_answered_with_those_that_are(
    dataset: str, level: Any, words: list[str]
) -> None:
    with pytest.raises(ValueError) as caught:
        find_options(dataset, level, "up_to")
    assert all(word in str(caught.value) for word in words)


def test_levels_change_the_questions_and_options_win_over_them() -> None:
    hard = [
        e.payload["entry"]["metadata"]["num_terms"]
        for e in draw(load("gcd", level="hard", curriculum="only"), count=5)
    ]
    easy = [
        e.payload["entry"]["metadata"]["num_terms"]
        for e in draw(load("gcd", level=0, curriculum="only"), count=5)
    ]
    assert min(hard) > max(easy)
    own = draw(load("gcd", level="hard", options={"min_numbers": 2, "max_numbers": 2}), count=5)
    assert {e.payload["entry"]["metadata"]["num_terms"] for e in own} == {2}


def test_held_out_questions_stay_held_out_on_every_level() -> None:
    sides: dict[str, set[str]] = {"train": set(), "eval": set()}
    for level in (0, 1, "hard"):
        environment = load("leg_counting", level=level, train_examples=60, eval_examples=40)
        for split, seen in sides.items():
            seen |= {e.payload["prompt_messages"][-1]["content"] for e in draw(environment, split)}
    assert min(map(len, sides.values())) > 50
    assert not sides["train"] & sides["eval"]


def test_a_level_that_the_dataset_itself_refuses_is_told_as_such() -> None:
    with pytest.raises(PluginFailure, match=r"caesar_cipher .*which level 3 has given it: rotation must be"):
        load("caesar_cipher", level=3)
    with pytest.raises(PluginFailure, match="has no level 99"):
        load("gcd", level=99)


@pytest.mark.parametrize("level", [-1, 1.5, "harder", True, {"num_animals": "most"}, []])
def test_a_level_of_another_form_is_refused(level: Any) -> None:
    with pytest.raises(ValidationError, match="level"):
        config.GymConfig(level=level)


def test_an_environment_can_be_sent_to_another_process_with_questions_drawn() -> None:
    environment = load("leg_counting", level=2)
    first = draw(environment, count=3)
    again = pickle.loads(pickle.dumps(environment))
    assert [e.id for e in draw(again, count=3)] == [e.id for e in first]


def test_a_mix_asks_each_dataset_as_often_as_it_weighs() -> None:
    environment = load(
        "mix", datasets={"leg-counting": 2, "gcd": 1}, levels={"gcd": 0}, train_examples=12, eval_examples=4
    )
    examples = draw(environment)
    names = [e.payload["dataset"] for e in examples]
    assert names == ["leg_counting", "gcd", "leg_counting"] * 4
    assert len({e.id for e in examples}) == 12
    assert len(draw(environment, "eval")) == 4
    assert [e.id for e in draw(environment, count=5)] == [e.id for e in examples[:5]]
    alone = draw(load("gcd", level=0), count=4)
    assert [e.id for e in examples if e.payload["dataset"] == "gcd"] == [f"gcd-{e.id}" for e in alone]


async def test_a_mix_scores_each_answer_by_its_own_dataset() -> None:
    environment = load("mix", datasets={"leg_counting": 1, "coin_flip": 1})
    for example in await environment.create_dataset("train", Path(), max_examples=2):
        payload = json.loads(json.dumps(example.payload))
        replies = [f"<answer>{environment.gold(example)}</answer>", "<answer>no</answer>"]
        async with FakeModel(lambda request, replies=replies: replies[int(request.session_id[-1])]) as model:
            group = await model.run_group(environment, type(example)(example.id, payload), size=2)
        right, wrong = group.rollouts
        assert right.rewards == {"correct": 1.0}
        assert wrong.rewards["correct"] < 1.0
    await environment.aclose()


@pytest.mark.parametrize(
    ("args", "word"),
    [
        ({"datasets": {}}, "at least one"),
        ({"datasets": {"leg_countin": 1}}, "did you mean 'leg_counting'"),
        ({"datasets": {"gcd": 0}}, "above 0"),
        ({"datasets": {"gcd": float("inf")}}, "above 0"),
        ({"datasets": {"coin-flip": 1, "coin_flip": 1}}, "named twice"),
        ({"datasets": {"gcd": 1}, "levels": {"lcm": 1}}, "lcm, which is not among"),
        ({"datasets": {"gcd": 1}, "options": {"gcd": {"seed": 1}}}, "seed cannot be set"),
    ],
)
def test_a_mix_that_makes_no_sense_is_refused(args: dict[str, Any], word: str) -> None:
    with pytest.raises((ValidationError, ValueError), match=word):
        config.MixConfig(**args)


def test_turns_are_fair_at_any_point() -> None:
    weights = {"a": 5.0, "b": 2.0, "c": 1.0}
    order = mix.take_turns(weights, 80)
    for count in range(1, 81):
        for name, weight in weights.items():
            assert abs(order[:count].count(name) - count * weight / 8) <= 1.0
    assert [order.count(name) for name in weights] == [50, 20, 10]


def test_the_levels_command_lists_one_or_all(capsys: pytest.CaptureFixture[str]) -> None:
    group = CommandGroup()
    plugin.register_commands(group)
    assert group.commands["levels"].run == "castform_env_gym.levels:show"
    assert levels.show(Namespace(dataset="gcd")) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("gcd has the levels 0 to ") and "num_terms: " in shown
    assert levels.show(Namespace(dataset=None)) == 0
    rows = dict(line.split(None, 1) for line in capsys.readouterr().out.splitlines())
    assert len(rows) == 105
    assert (rows["leg_counting"], rows["gsm_symbolic"]) == ("0 to 35", "none")
    with pytest.raises(UsageError) as caught:
        levels.show(Namespace(dataset="gdc"))
    assert "did you mean 'gcd'" in f"{caught.value} {caught.value.hint}"


def test_solved_questions_are_shown_with_their_answers_and_not_asked() -> None:
    plain = draw(load("gcd", train_examples=6))
    environment = load("gcd", train_examples=4, solved_examples=2)
    shown = [e.payload["prompt_messages"][1]["content"] for e in plain[:2]]
    for split in ("train", "eval"):
        for example in draw(environment, split, 3):
            messages = example.payload["prompt_messages"]
            assert [m["role"] for m in messages] == ["system", *["user", "assistant"] * 2, "user"]
            assert [m["content"] for m in messages[1:5:2]] == shown
            assert messages[2]["content"] == f"<answer>{plain[0].payload['entry']['answer']}</answer>"
    assert [e.id for e in draw(environment)] == [e.id for e in plain[2:]]
    as_text = draw(load("gcd", answer="text", solved_examples=1), count=1)[0].payload["prompt_messages"][2]
    assert as_text["content"] == plain[0].payload["entry"]["answer"]
    with pytest.raises(PluginFailure, match="none to show"):
        load("boxnet", solved_examples=1)


def test_it_conforms() -> None:
    assert_conforms("gym/mix", examples=2, scripts=4)
