from __future__ import annotations

import random
import re
from fractions import Fraction
from pathlib import Path

import pytest
from castform_env_math.kinds import ALL_KINDS, PERCENT
from castform_env_math.problems import HELD_OUT_SHARE, Kind, draw_problems, split_of

GRADES = [(kind, level) for kind in ALL_KINDS for level in (1, 2, 3)]
every_grade = pytest.mark.parametrize(
    ("kind", "level"), GRADES, ids=[f"{kind.name}-{level}" for kind, level in GRADES]
)
MANY = 300


def numbers_in(text: str) -> tuple[int, ...]:
    return tuple(sorted(int(number) for number in re.findall(r"\d+", text)))


def solve(text: str) -> Fraction | None:
    """Solve a problem from its text alone, by other means than the generator's; None for words."""
    found = re.search(r"([\d()/ ]+[-+*/][\d()/ ]+)[.?]", text)
    if "x" not in text and "%" not in text and "percent" not in text and found and "/" in found[1]:
        one, sign, other = re.fullmatch(r"\(?(\S+?)\)? ([-+*/]) \(?(\S+?)\)?", found[1].strip()).groups()
        a, b = Fraction(one), Fraction(other)
        return {"+": a + b, "-": a - b, "*": a * b}[sign] if sign != "/" else a / b
    equation = re.search(r"([-+x\d ]*x[-+x\d ]*) = ([-+x\d ]+)|([-+x\d ]+) = ([-+x\d ]*x[-+x\d ]*)", text)
    if equation is None:
        return None
    left, right = (side for side in equation.groups() if side is not None)
    slope, rest = (a - b for a, b in zip(_linear(left), _linear(right), strict=True))
    return Fraction(-rest, slope)


def _linear(side: str) -> tuple[int, int]:
    slope = rest = 0
    for sign, digits, x in re.findall(r"([-+]?)\s*(\d*)(x?)", side):
        if digits or x:
            value = int(digits or 1) * (-1 if sign == "-" else 1)
            slope, rest = (slope + value, rest) if x else (slope, rest + value)
    return slope, rest


@every_grade
def test_numbers_that_are_held_out_never_stand_in_training(kind: Kind, level: int) -> None:
    shown = {}
    for split in ("train", "eval"):
        drawn = draw_problems([kind], split, level=level, count=MANY, seed=0, solved=1)
        assert len({each.problem.id for each in drawn}) == len(drawn) >= 190
        assert len({each.problem.text for each in drawn}) == len(drawn)
        shown[split] = {numbers_in(each.problem.text) for each in drawn}
        assert {split_of(kind.name, numbers) for numbers in shown[split]} == {split}
    assert not shown["train"] & shown["eval"]


def test_the_readme_counts_the_problems_of_level_1() -> None:
    readme = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `math/([\w-]+)` \|.*\| (\d+) \| (\d+) \|$", readme, re.MULTILINE)
    counted = [
        (
            kind.name,
            *(
                str(len(draw_problems([kind], split, level=1, count=10_000, seed=0, solved=0)))
                for split in ("train", "eval")
            ),
        )
        for kind in ALL_KINDS
    ]
    assert listed == counted


@every_grade
def test_the_answer_follows_from_the_text(kind: Kind, level: int) -> None:
    for each in draw_problems([kind], "eval", level=level, count=150, seed=4, solved=2):
        for problem in (each.problem, *each.solved):
            assert problem.working.rpartition("=")[2].strip() == problem.answer
            solution = solve(problem.text)
            if kind.name in ("equations", "fractions"):
                assert solution == Fraction(problem.answer), problem.text
                assert str(solution) == problem.answer  # lowest terms
            else:
                assert problem.answer.isdecimal() and int(problem.answer) > 0


@pytest.mark.parametrize(
    ("place", "numbers", "answer"), [(0, (55, 140), "217"), (1, (55, 140), "63"), (2, (10, 40), "400")]
)
def test_prices_rise_and_fall_and_go_back(place: int, numbers: tuple[int, int], answer: str) -> None:
    problem = PERCENT.levels[3][place].write(random.Random(0), numbers)
    assert problem.answer == answer


@every_grade
def test_a_solved_example_is_never_asked_and_never_has_the_answer(kind: Kind, level: int) -> None:
    solved_numbers = {numbers for operation in kind.levels[level] for numbers in operation.solved}
    for operation in kind.levels[level]:
        assert not set(operation.solved) & set(operation.numbers())
    assert len(solved_numbers) >= 2
    for split in ("train", "eval"):
        for each in draw_problems([kind], split, level=level, count=MANY, seed=1, solved=2):
            assert each.solved
            assert each.problem.answer not in [solved.answer for solved in each.solved]


@every_grade
def test_repeating_a_number_of_the_question_is_never_right(kind: Kind, level: int) -> None:
    for each in draw_problems([kind], "train", level=level, count=MANY, seed=0, solved=1):
        assert each.problem.answer not in re.findall(r"\d+(?:/\d+)?", each.problem.text), each.problem


@every_grade
def test_the_seed_decides_the_draw_and_global_randomness_does_not(kind: Kind, level: int) -> None:
    def draw(seed: int, count: int = 30) -> list[str]:
        drawn = draw_problems([kind], "train", level=level, count=count, seed=seed, solved=1)
        return [each.problem.text for each in drawn]

    random.seed(1)
    before = random.getstate()
    first = draw(7)
    assert random.getstate() == before
    random.seed(2)
    assert draw(7) == first != draw(8)
    assert draw(7, 11) == first[:11]


def test_the_kinds_take_turns() -> None:
    drawn = draw_problems(ALL_KINDS, "train", level=1, count=8, seed=0, solved=1)
    assert [each.problem.kind for each in drawn[:4]] == [kind.name for kind in ALL_KINDS]


def test_the_held_out_share_is_what_it_says() -> None:
    splits = [split_of("percent", (a, b)) for a in range(100) for b in range(a, 100)]
    assert splits.count("eval") / len(splits) == pytest.approx(HELD_OUT_SHARE, abs=0.02)
    assert split_of("percent", (3, 8)) == split_of("percent", (8, 3))
