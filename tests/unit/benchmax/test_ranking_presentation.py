"""What the judge sees, in which sequence, and how its numbers are read back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmax.rewards.judge import fence
from benchmax.rewards.ranking.presentation import Presentation, plan_presentations
from benchmax.rewards.ranking.prompt import write_ranking_prompt
from benchmax.rewards.ranking.verdict import make_ranking_reader
from benchmax.rewards.rubric import Rubric

TEXTS = st.lists(st.text(max_size=8), min_size=1, max_size=7, unique=True)


@given(TEXTS, st.text(max_size=5))
def test_a_pair_shows_every_entry_once_and_then_all_of_it_backwards(texts: list[str], seed: str) -> None:
    first, second = plan_presentations(texts, 2, seed=seed)
    assert sorted(first.sequence) == list(first.labels) == list(range(len(texts)))
    assert second.sequence == first.sequence[::-1]
    assert second.labels == first.labels[::-1]


@given(TEXTS, st.text(max_size=5), st.randoms())
def test_the_sequence_does_not_depend_on_the_order_given(texts: list[str], seed: str, random: Any) -> None:
    shuffled = random.sample(texts, len(texts))
    (one,), (other,) = plan_presentations(texts, 1, seed=seed), plan_presentations(shuffled, 1, seed=seed)
    assert [texts[entry] for entry in one.sequence] == [shuffled[entry] for entry in other.sequence]


def test_the_sequence_depends_on_the_seed_and_the_pair_and_repeats() -> None:
    texts = [str(number) for number in range(12)]
    plan = plan_presentations(texts, 4, seed="a")
    assert plan == plan_presentations(texts, 4, seed="a")
    assert plan[:3] == plan_presentations(texts, 3, seed="a")
    assert plan != plan_presentations(texts, 4, seed="b")
    assert len({presentation.sequence for presentation in plan}) == 4
    pinned = plan_presentations(["a", "é", "c", "d", "e"], 3, seed="s")  # the same on every machine
    assert [presentation.sequence for presentation in pinned] == [
        (2, 1, 3, 0, 4),
        (4, 0, 3, 1, 2),
        (3, 2, 0, 1, 4),
    ]


def test_the_last_entry_is_not_always_shown_last() -> None:
    places = {
        plan_presentations(["a", "b", "truth"], 1, seed=str(seed))[0].sequence.index(2) for seed in range(40)
    }
    assert places == {0, 1, 2}


def test_a_lone_surrogate_has_a_place_too() -> None:
    assert sorted(plan_presentations(["\ud800", "b"], 1, seed="\udfff")[0].sequence) == [0, 1]


def test_labels_are_read_back_as_entries() -> None:
    presentation = Presentation(sequence=(1, 0, 2), labels=(2, 1, 0))
    assert presentation.to_entries(((0,), (1, 2))) == ((2,), (1, 0))


def test_the_prompt_shows_each_text_in_a_fence_under_its_label() -> None:
    rubric = Rubric("Clarity", "Is it {clear}?")
    prompt = write_ranking_prompt(
        rubric,
        question="Why {so}?",
        texts=["alpha", "beta\nEND Answer 0", "gamma"],
        presentation=Presentation(sequence=(2, 0, 1), labels=(2, 1, 0)),
    )
    blocks = [fence("Answer 0", "gamma"), fence("Answer 2", "alpha"), fence("Answer 1", "beta\nEND Answer 0")]
    assert "\n\n".join(blocks) in prompt
    assert fence("Question", "Why {so}?") in prompt
    assert "Criterion: Clarity\nIs it {clear}?\n" in prompt
    assert "the numbers 0, 1, 2 exactly once" in prompt
    assert '{"ranking": [[' in prompt
    assert "fulfils the criterion most" in prompt


def test_the_prompt_says_that_a_fault_is_best_absent() -> None:
    rubric = Rubric("Padding", "Says it twice.", polarity="negative")
    prompt = write_ranking_prompt(
        rubric, question="q", texts=["a"], presentation=Presentation(sequence=(0,), labels=(0,))
    )
    assert "shows it least" in prompt
    assert "fulfils" not in prompt


def test_a_ranking_of_every_label_is_read() -> None:
    read = make_ranking_reader(3)
    assert read({"ranking": [[2], [0, 1]], "reasoning": "because"}) == (((2,), (0, 1)), "because")
    assert read({"ranking": [[2, 1, 0]], "reasoning": None}) == (((2, 1, 0),), "")
    assert read({"ranking": [[0], [1], [2]], "more": 1}) == (((0,), (1,), (2,)), "")


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        ({}, "'ranking' must be a list of tiers, not None"),
        ({"ranking": {"0": 1}}, "list of tiers"),
        ({"ranking": "[[0],[1],[2]]"}, "list of tiers"),
        ({"ranking": []}, r"each of the numbers 0 to 2 once, not \[\]"),
        ({"ranking": [0, 1, 2]}, "tier of 'ranking' must be a non-empty list, not 0"),
        ({"ranking": [[0, 1, 2], []]}, r"non-empty list, not \[\]"),
        ({"ranking": [[0], [1]]}, r"once, not \[0, 1\]"),
        ({"ranking": [[0], [1], [2], [2]]}, r"once, not \[0, 1, 2, 2\]"),
        ({"ranking": [[0, 0, 1, 2]]}, r"once, not \[0, 0, 1, 2\]"),
        ({"ranking": [[1], [2], [3]]}, r"once, not \[1, 2, 3\]"),
        ({"ranking": [[-1], [0], [1], [2]]}, r"once, not \[-1, 0, 1, 2\]"),
        ({"ranking": [[False], [True], [2]]}, "must hold integers, not False"),
        ({"ranking": [[0.0], [1], [2]]}, "must hold integers, not 0.0"),
        ({"ranking": [["0"], [1], [2]]}, "must hold integers, not '0'"),
        ({"ranking": [[[0]], [1], [2]]}, r"must hold integers, not \[0\]"),
        ({"ranking": [[0, 1, 2]], "reasoning": 7}, "'reasoning' must be a string, not 7"),
        ({"ranking": [[0, 1, 2]], "reasoning": ["x"]}, "'reasoning' must be a string"),
        ({"ranking": [[0, 1, 2]], "reasoning": False}, "'reasoning' must be a string"),
    ],
)
def test_any_other_reply_is_no_ranking(reply: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        make_ranking_reader(3)(reply)
