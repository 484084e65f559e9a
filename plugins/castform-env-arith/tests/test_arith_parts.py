"""What composed environments take from this plugin: questions, a calculator, rewards."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from castform_env_arith.config import ArithConfig, MixedConfig
from castform_env_arith.environment import make_add, make_mixed
from castform_env_arith.parts import (
    calculate,
    make_add24_questions,
    make_add_questions,
    make_calculator,
    make_mixed_questions,
)
from castform_env_arith.rewards import correct_reward

from castform.plugins import load_environment

HERE = Path(__file__).parent
README = (HERE.parent / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("make_dataset", "make_environment", "config"),
    [
        (make_add_questions, make_add, ArithConfig(train_examples=9, eval_examples=5)),
        (make_mixed_questions, make_mixed, MixedConfig(level=4, train_examples=9, eval_examples=5, seed=3)),
    ],
)
async def test_a_dataset_holds_the_environment_s_questions_and_their_parts(
    make_dataset, make_environment, config
):
    for split, size in (("train", 9), ("eval", 5)):
        rows = make_dataset(config).create(split, HERE)
        assert len(rows) == size
        asked = await make_environment(config).create_dataset(split, HERE)
        assert [row.id for row in rows] == [example.id for example in asked]
        for row, example in zip(rows, asked, strict=True):
            assert example.payload.items() <= row.payload.items()
            fields = row.payload
            assert fields["question"] == f"What is {fields['first']} {fields['symbol']} {fields['second']}?"
            assert calculate(fields["first"], fields["symbol"], fields["second"]) == fields["ground_truth"]
        assert [row.id for row in make_dataset(config).create(split, HERE, max_examples=2)] == [
            row.id for row in rows[:2]
        ]


def test_sums_up_to_24_stay_there():
    rows = make_add24_questions(ArithConfig()).create("train", HERE)
    assert len(rows) == 174 and max(row.payload["ground_truth"] for row in rows) == 24


@pytest.mark.parametrize(("operation", "result"), [("+", 5), ("-", 9), ("*", -14)])
def test_the_calculator_works_with_whole_numbers(operation, result):
    assert make_calculator()(7, operation, -2) == result


def test_correct_takes_an_answer_that_is_a_whole_number_as_text_too():
    assert correct_reward("<answer>15</answer>", "15") == 1.0
    assert correct_reward("<answer>15</answer>", "16") == 0.0
    with pytest.raises(ValueError, match="fifteen"):
        correct_reward("<answer>15</answer>", "fifteen")


async def test_the_toml_of_the_readme_composes(tmp_path):
    (text,) = re.findall(r"^```toml\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
    (tmp_path / "mix.toml").write_text(text)
    environment = load_environment(str(tmp_path / "mix.toml")).environment
    assert list(environment.function_tools) == ["calculate"]
    assert environment.reward_weights == {"arith/correct": 1.0, "arith/format": 0.2}
    assert len(await environment.create_dataset("eval", tmp_path)) == 200
