"""From places in a ranking to scores: exact values at the corners, laws in between."""

from __future__ import annotations

import math
from itertools import combinations, pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmax.rewards.ranking import RankingAnchor
from benchmax.rewards.ranking.anchors import Seam, check_anchor_order, pool_seams, score_between_seams
from benchmax.rewards.ranking.positions import Ranking, average_rankings, mid_rank_positions
from benchmax.rewards.ranking.scores import (
    score_against_anchors,
    score_against_ground_truth,
    score_among_siblings,
)

SCORES = st.floats(0, 1)


@st.composite
def rankings(draw: st.DrawFn, least: int = 2, most: int = 9) -> Ranking:
    order = draw(st.permutations(range(draw(st.integers(least, most)))))
    cuts = sorted(draw(st.sets(st.integers(1, len(order) - 1))))
    return tuple(tuple(order[start:end]) for start, end in pairwise([0, *cuts, len(order)]))


@pytest.mark.parametrize(
    ("ranking", "positions"),
    [
        (((2,), (0,), (1,)), [1, 2, 0]),
        (((0, 1),), [0.5, 0.5]),
        (((1,), (0, 2, 3), (4,)), [2, 0, 2, 2, 4]),
        (((3, 0), (1, 2)), [0.5, 2.5, 2.5, 0.5]),
    ],
)
def test_entries_of_a_tier_share_the_mean_of_its_places(ranking: Ranking, positions: list[float]) -> None:
    assert mid_rank_positions(ranking) == positions


@given(rankings())
def test_ties_do_not_change_the_sum_of_the_positions(ranking: Ranking) -> None:
    positions = mid_rank_positions(ranking)
    assert sum(positions) == len(positions) * (len(positions) - 1) / 2


@given(rankings())
def test_one_ranking_is_its_own_average(ranking: Ranking) -> None:
    assert average_rankings([ranking]) == (ranking, mid_rank_positions(ranking))
    assert average_rankings([ranking, ranking, ranking]) == (ranking, mid_rank_positions(ranking))


def test_entries_of_the_same_mean_position_tie() -> None:
    assert average_rankings([((0,), (1,), (2,)), ((1,), (0,), (2,))]) == (((0, 1), (2,)), [0.5, 0.5, 2])
    assert average_rankings([((2,), (1,), (0,)), ((2,), (0,), (1,))]) == (((2,), (1, 0)), [1.5, 1.5, 0])
    assert average_rankings([((0,), (1,), (2,)), ((2, 0), (1,))]) == (((0,), (2,), (1,)), [0.25, 1.5, 1.25])


def test_siblings_are_spread_evenly_from_one_to_zero() -> None:
    assert score_among_siblings([1, 0]) == [0, 1]
    assert score_among_siblings([0, 1, 2, 3, 4]) == [1, 0.75, 0.5, 0.25, 0]
    assert score_among_siblings([0.5, 0.5, 2]) == [0.75, 0.75, 0]


@pytest.mark.parametrize(
    ("positions", "scores"),
    [
        ([1, 0, 2], [0.75, 1]),  # both better than the ground truth
        ([2, 1, 0], [0, 0.15]),  # both worse
        ([2, 0, 1], [0, 1]),
        ([0, 2, 3, 1], [1, 0.15, 0]),
        ([1, 1, 1], [0.5, 0.5]),
        ([0.5, 2, 0.5], [0.5, 0]),
        ([0, 1.5, 3, 1.5], [1, 0.5, 0]),
        ([0], []),
    ],
)
def test_the_ground_truth_is_worth_a_half(positions: list[float], scores: list[float]) -> None:
    earned = score_against_ground_truth(positions, below_ground_truth_ceiling=0.3)
    assert earned == pytest.approx(scores, abs=1e-15)


def test_the_ceiling_bounds_what_is_worse_than_the_ground_truth() -> None:
    positions = [0.0, 2.0, 3.0, 4.0, 5.0, 1.0]
    earned = score_against_ground_truth(positions, below_ground_truth_ceiling=0.4)
    assert earned == pytest.approx([1, 0.3, 0.2, 0.1, 0])
    assert score_against_ground_truth(positions, below_ground_truth_ceiling=0.0)[1:] == [0, 0, 0, 0]


OK, GREAT = RankingAnchor("ok", 0.4), RankingAnchor("great", 0.7)


@pytest.mark.parametrize(
    ("positions", "scores"),
    [
        ([1, 3, 2, 0], [0.55, 0]),  # great, strong, acceptable, weak
        ([0, 1, 3, 2], [1, 0.85]),  # both above the best anchor
        ([2, 3, 1, 0], [0.2, 0]),  # both below the worst one
        ([1.5, 3, 1.5, 0], [0.4, 0]),  # a tie with an anchor has its score
        ([0.5, 3, 2, 0.5], [0.7, 0]),
        ([0, 1.5, 3, 1.5], [1, 0.7]),
    ],
)
def test_scores_go_from_anchor_to_anchor_in_straight_lines(
    positions: list[float], scores: list[float]
) -> None:
    assert score_against_anchors(positions, [OK, GREAT]) == pytest.approx(scores, abs=1e-15)


def test_a_single_anchor_parts_the_scale() -> None:
    assert score_against_anchors([0, 1, 3, 4, 2], [RankingAnchor("a", 0.6)]) == pytest.approx(
        [1, 0.8, 0.3, 0]
    )


def test_a_worse_anchor_ranked_above_a_better_one_is_pooled_with_it() -> None:
    assert pool_seams([Seam(2, 0.7), Seam(0, 0.4)]) == [Seam(0, 0.7)]
    assert pool_seams([Seam(0, 0.8), Seam(1, 0.3), Seam(3, 0.7)]) == [Seam(0, 0.8), Seam(1, 0.7)]
    assert pool_seams([Seam(0, 0.5), Seam(1, 0.3), Seam(2, 0.7), Seam(4, 0.1)]) == [
        Seam(0, 0.7),
        Seam(4, 0.1),
    ]
    assert pool_seams([Seam(1, 0.5), Seam(3, 0.5)]) == [Seam(1, 0.5), Seam(3, 0.5)]
    # the judge put the 0.4 first, so its place earns 0.7, and what lies between falls off to 0 from there
    assert score_against_anchors([1, 3, 0, 2], [OK, GREAT]) == pytest.approx([0.7 * 2 / 3, 0])


def test_anchors_in_one_tier_count_as_the_best_of_them() -> None:
    assert score_against_anchors([0, 3, 1.5, 1.5], [OK, GREAT]) == pytest.approx([1, 0])
    assert pool_seams([Seam(1.5, 0.4), Seam(1.5, 0.7)]) == [Seam(1.5, 0.7)]
    assert pool_seams([Seam(1.5, 0.7), Seam(1.5, 0.4)]) == [Seam(1.5, 0.7)]
    twins = [RankingAnchor("one", 0.5), RankingAnchor("two", 0.5)]
    assert score_against_anchors([0, 3, 1.5, 1.5], twins) == [1, 0]
    assert score_against_anchors([1, 3, 1, 1], twins) == [0.5, 0]


def test_between_two_anchors_of_the_same_score_lies_that_score() -> None:
    seams = [Seam(1, 0.5), Seam(3, 0.5)]
    assert [score_between_seams(place, seams, last=4) for place in range(5)] == [1, 0.5, 0.5, 0.5, 0]


@pytest.mark.parametrize("position", [0.5, 1.0, 1.5, 3.0, 7.5])
def test_rounding_carries_no_score_past_the_ends(position: float) -> None:
    for hundredths in range(101):
        seams = [Seam(position, hundredths / 100)]
        assert score_between_seams(0, seams, last=8) == 1.0
        assert score_between_seams(8, seams, last=8) == 0.0
        for place in range(9):
            assert 0.0 <= score_between_seams(place, seams, last=8) <= 1.0


@st.composite
def anchored(draw: st.DrawFn) -> tuple[list[float], list[RankingAnchor]]:
    positions = mid_rank_positions(draw(rankings()))
    count = draw(st.integers(1, len(positions) - 1))
    scores = sorted(draw(st.lists(SCORES, min_size=count, max_size=count)))
    return positions, [RankingAnchor("x", score) for score in scores]


@given(anchored())
def test_an_anchor_in_order_earns_its_own_score(drawn: tuple[list[float], list[RankingAnchor]]) -> None:
    positions, anchors = drawn
    places = positions[-len(anchors) :]
    seams = [Seam(place, anchor.score) for place, anchor in zip(places, anchors, strict=True)]
    inverted = any(
        (one.position - other.position) * (one.score - other.score) > 0
        or (one.position == other.position and one.score != other.score)
        for one, other in combinations(seams, 2)
    )
    earned = [
        score_between_seams(seam.position, pool_seams(seams), last=len(positions) - 1) for seam in seams
    ]
    if not inverted:
        assert earned == [seam.score for seam in seams]


def check_laws(places: list[float], scores: list[float]) -> None:
    assert all(0 <= score <= 1 for score in scores)
    by_place = sorted(zip(places, scores, strict=True))
    for (place, score), (next_place, next_score) in pairwise(by_place):
        assert next_score <= score + 1e-12
        assert place < next_place or score == next_score


@given(rankings())
def test_siblings_scores_fall_with_the_place(ranking: Ranking) -> None:
    places = mid_rank_positions(ranking)
    check_laws(places, score_among_siblings(places))


@given(rankings(), st.floats(0, 0.5))
def test_scores_against_a_ground_truth_fall_with_the_place(ranking: Ranking, ceiling: float) -> None:
    places = mid_rank_positions(ranking)
    scores = score_against_ground_truth(places, below_ground_truth_ceiling=ceiling)
    check_laws(places[:-1], scores)
    for place, score in zip(places, scores, strict=False):
        assert (score > 0.5, score == 0.5) == (place < places[-1], place == places[-1]) or ceiling == 0.5


@given(anchored())
def test_scores_against_anchors_fall_with_the_place(drawn: tuple[list[float], list[RankingAnchor]]) -> None:
    positions, anchors = drawn
    check_laws(positions[: -len(anchors)], score_against_anchors(positions, anchors))


@given(st.lists(rankings(least=5, most=5), min_size=1, max_size=4))
def test_mean_positions_keep_the_laws(several: list[Ranking]) -> None:
    ranking, means = average_rankings(several)
    assert sorted(index for tier in ranking for index in tier) == [0, 1, 2, 3, 4]
    tiers = [{means[index] for index in tier} for tier in ranking]
    assert all(len(tier) == 1 for tier in tiers)
    assert all(max(one) < min(other) for one, other in pairwise(tiers))
    check_laws(means, score_among_siblings(means))
    check_laws(means[:-1], score_against_ground_truth(means, below_ground_truth_ceiling=0.3))
    check_laws(means[:-2], score_against_anchors(means, [OK, GREAT]))


@pytest.mark.parametrize(
    ("response", "score", "error", "says"),
    [
        ("", 0.5, ValueError, "^an anchor's response must be a non-empty string$"),
        (" \n", 0.5, ValueError, "response"),
        (7, 0.5, ValueError, "response"),
        ("a", True, TypeError, "score must be a number, not True"),
        ("a", "0.5", TypeError, "score must be a number"),
        ("a", math.nan, ValueError, r"score must be in \[0, 1\], not nan"),
        ("a", -0.01, ValueError, r"in \[0, 1\], not -0.01"),
        ("a", 1.01, ValueError, r"in \[0, 1\], not 1.01"),
    ],
)
def test_an_anchor_needs_a_text_and_a_score(
    response: Any, score: Any, error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        RankingAnchor(response, score)


def test_an_anchor_may_be_worth_nothing_or_everything() -> None:
    assert (RankingAnchor("a", 0).score, RankingAnchor("a", 1).score) == (0, 1)
    assert (RankingAnchor("a", 1, "gold").label, RankingAnchor("a", 1).label) == ("gold", None)


def test_anchors_go_from_worst_to_best() -> None:
    check_anchor_order([])
    check_anchor_order([OK, OK, GREAT])
    with pytest.raises(ValueError, match=r"worst to best, but 0.4 follows 0.7"):
        check_anchor_order([OK, GREAT, OK])
