from __future__ import annotations

import pytest
from castform_env_math.rewards import boxed, correct, correct_reward, format_reward, tagged
from hypothesis import given, settings
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("reply", "form", "right"),
    [
        ("<answer>7</answer>", 1, 1),
        ("3 + 4 = 7\n<answer> 7 </answer>", 1, 1),
        ("<answer>x = 7</answer>", 1, 1),
        ("<answer>7 apples</answer>", 1, 1),
        ("<answer>$7.00$</answer>", 1, 1),
        ("<answer>3 + 4 = 7</answer>", 1, 1),
        ("<think>is it <answer>8</answer>?</think><answer>7</answer>", 1, 1),
        ("<answer>\\boxed{7}</answer>", 1, 1),
        ("<answer>\\boxed{8}\\boxed{7}</answer>", 0, 0),
        ("<answer>\\boxed{7</answer>", 0, 0),
        ("<answer>8</answer>", 1, 0),
        ("<answer>-7</answer>", 1, 0),
        ("<answer>7 or 8</answer>", 1, 0),
        ("<answer>7</answer><answer>7</answer>", 0, 0),
        ("<answer>7", 0, 0),
        ("<answer></answer>", 0, 0),
        ("\\boxed{7}", 0, 0),
        ("The answer is 7", 0, 0),
        ("<think><answer>7</answer></think>", 0, 0),
        ("", 0, 0),
        (f"<answer>{'7' * 100_000}</answer>", 1, 0),
    ],
)
def test_a_reply_earns_what_it_deserves(reply: str, form: float, right: float) -> None:
    assert format_reward(reply, "tags") == form
    assert correct_reward(reply, "7", "tags") == right


@pytest.mark.parametrize(
    "answer",
    [
        "3+4",
        "14/2",
        "7/1",
        "(3)+(4)",
        "3 \\times 4",
        "\\frac{14}{2}",
        "\\dfrac{14}{2}",
        "\\sqrt{49}",
        "sqrt(49)",
        "49^{1/2}",
        "\\max(3,7)",
        "8 − 1",
        "1·7",
        "|-7|",
        "--7",
        "3!+1",
    ],
)
def test_a_calculation_that_equals_the_answer_is_not_paid(answer: str) -> None:
    for truth in ("7", "12"):
        assert correct_reward(f"<answer>{answer}</answer>", truth, "tags") == 0.0
        assert correct(f"The answer is \\boxed{{{answer}}}", truth) == 0.0
        assert correct(f"The answer is {answer}.", truth) == 0.0


@pytest.mark.parametrize(
    ("answer", "truth", "right"),
    [
        ("3/4", "3/4", 1),
        ("\\frac{3}{4}", "3/4", 1),
        ("\\frac34", "3/4", 1),
        ("0.75", "3/4", 1),
        ("6/8", "3/4", 0),
        ("\\frac{6}{8}", "3/4", 0),
        ("3/8 + 3/8", "3/4", 0),
        ("5/2", "5/2", 1),
        ("2 1/2", "5/2", 1),
        ("2", "2", 1),
        ("4/2", "2", 0),
        ("-3", "-3", 1),
        ("10 - 13", "-3", 0),
    ],
)
def test_fractions_count_in_lowest_terms(answer: str, truth: str, right: float) -> None:
    assert correct_reward(f"\\boxed{{{answer}}}", truth, "boxed") == right


def test_only_one_box_outside_of_thinking_is_an_answer() -> None:
    assert format_reward("so \\boxed{\\frac{1}{2}}", "boxed") == 1.0
    assert correct_reward("<think>\\boxed{3}</think>\\boxed{\\frac{1}{2}}", "\\frac12", "boxed") == 1.0
    for reply in ("\\boxed{7} \\boxed{7}", "\\boxed{7", "\\boxed{}", "<answer>7</answer>"):
        assert correct_reward(reply, "7", "boxed") == 0.0


def test_latex_is_compared_by_value() -> None:
    assert correct_reward("\\boxed{(x+1)^2}", "x^2+2x+1", "boxed") == 1.0
    assert correct_reward("\\boxed{(x+1)^2}", "x^2+2x+2", "boxed") == 0.0
    assert correct_reward("\\boxed{1.2e8}", "1.2 \\times 10^8", "boxed") == 1.0


def test_the_rewards_for_composed_environments_read_transcripts_and_worked_golds() -> None:
    transcript = [{"role": "user", "content": "?"}, {"role": "assistant", "content": "3 + 4 is 7, so 7."}]
    assert correct(transcript, 7) == 1.0
    assert correct(transcript, "3 + 4 = 7 #### 7", kind="words") == 1.0
    assert correct(transcript, 8) == 0.0
    assert correct("I do not know", 7) == correct("", 7) == 0.0
    assert (tagged("<answer>1</answer>"), tagged("1"), boxed("\\boxed{1}"), boxed("1")) == (
        1.0,
        0.0,
        1.0,
        0.0,
    )


@given(
    text=st.text(alphabet="0123456789+-*/=().^\\ {}x<>answerboxdfrac\n", max_size=80),
    truth=st.integers(-50, 50),
)
@settings(deadline=None, max_examples=30)
def test_any_text_gets_a_reward_of_nothing_or_one(text: str, truth: int) -> None:
    for style in ("tags", "boxed"):
        assert correct_reward(text, str(truth), style) in (0.0, 1.0)
        assert correct_reward(text, str(truth), style) <= format_reward(text, style)
    assert correct(text, truth) in (0.0, 1.0)
