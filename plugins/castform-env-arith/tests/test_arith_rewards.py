from __future__ import annotations

import pytest
from castform_env_arith.rewards import correct_reward, format_reward

from benchmax.rewards import read_tagged_answer


@pytest.mark.parametrize(
    ("reply", "form", "correct"),
    [
        ("<answer>15</answer>", 1.0, 1.0),
        ("<ANSWER> 15\n</Answer>", 1.0, 1.0),
        ("It is <answer>15</answer>.", 1.0, 1.0),
        ("<answer>+15</answer>", 1.0, 1.0),
        ("<answer>015</answer>", 1.0, 1.0),
        ("<answer>16</answer>", 1.0, 0.0),
        ("<answer>-15</answer>", 1.0, 0.0),
        ("<answer>151</answer>", 1.0, 0.0),
        ("<answer>15.0</answer>", 0.5, 0.0),
        ("<answer>7 + 8 = 15</answer>", 0.5, 0.0),
        ("<answer>15 or 16</answer>", 0.5, 0.0),
        ("<answer>fifteen</answer>", 0.5, 0.0),
        ("<answer></answer>", 0.0, 0.0),
        ("15", 0.0, 0.0),
        ("<answer>15", 0.0, 0.0),
        ("15</answer>", 0.0, 0.0),
        ("</answer>15<answer>", 0.0, 0.0),
        ("<answer>15</answer><answer>15</answer>", 0.0, 0.0),
        ("<answer>14</answer><answer>15</answer>", 0.0, 0.0),
        ("<answer><answer>15</answer>", 0.0, 0.0),
        ("", 0.0, 0.0),
        (f"<answer>{'9' * 5000}</answer>", 0.5, 0.0),
    ],
)
def test_a_reply_earns_what_it_deserves(reply: str, form: float, correct: float) -> None:
    assert format_reward(reply) == form
    assert correct_reward(reply, 15) == correct


def test_zero_and_its_negative_are_the_same_number() -> None:
    assert correct_reward("<answer>-0</answer>", 0) == 1.0


def test_the_answer_keeps_its_own_case_and_loses_the_space_around_it() -> None:
    assert read_tagged_answer("a <answer> Five </answer> b") == "Five"
