"""Golden behaviours of ranking, adaptive rubrics and diversity, with a judge behind real HTTP."""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from benchmax.envs import StaticBearerAuth
from benchmax.rewards.adaptive import (
    AdaptiveRubrics,
    RubricCache,
    generate_adaptive_rubrics,
    generate_and_cache_adaptive_rubrics,
)
from benchmax.rewards.diversity import (
    LLMDiversityConfig,
    NgramDiversityConfig,
    cluster_texts,
    scale_by_diversity,
)
from benchmax.rewards.judge import Judge, JudgeError
from benchmax.rewards.ranking import RankingAnchor, evaluate_rubric_ranking, rank_group_rubrics
from benchmax.rewards.rubric import Rubric
from benchmax.testing import ChatServer, Fault, ScriptedRequest
from benchmax.testing.replies import Answer

RUBRIC = Rubric("Quality", "Is it a good answer?")


def judge_at(server: ChatServer) -> Judge:
    return Judge("judge", server.base_url, StaticBearerAuth("key"), max_retries=0)


async def ranked(ranking: object, responses: Sequence[str], **options: Any) -> Any:
    async with ChatServer([{"content": json.dumps({"ranking": ranking, "reasoning": "r"})}]) as server:
        judge = judge_at(server)
        try:
            return await evaluate_rubric_ranking(
                RUBRIC, question="q", responses=responses, judge=judge, **options
            )
        finally:
            await judge.aclose()


async def test_the_second_of_two_answers_wins() -> None:
    result = await ranked([[1], [0]], ["first", "second"])
    assert result.scores == (0.0, 1.0)
    assert result.ranking == ((1,), (0,))
    assert result.reasoning == "r"
    assert result.raw_response == '{"ranking": [[1], [0]], "reasoning": "r"}'


async def test_the_ground_truth_stands_between_the_two() -> None:
    result = await ranked([[1], [2], [0]], ["first", "second"], ground_truth="truth")
    assert result.scores == (0.0, 1.0)
    assert result.ranking == ((1,), (2,), (0,))


async def test_a_tie_with_the_ground_truth_is_a_half() -> None:
    assert (await ranked([[0, 1]], ["first"], ground_truth="truth")).scores == (0.5,)
    assert (await ranked([[1], [0, 2]], ["first", "second"], ground_truth="truth")).scores == (0.5, 1.0)


async def test_bare_integers_are_no_tiers() -> None:
    with pytest.raises(JudgeError):
        await ranked([1, 0], ["first", "second"])


async def test_between_two_anchors_the_score_is_between_theirs() -> None:
    anchors = [RankingAnchor("acceptable", 0.4), RankingAnchor("great", 0.7, label="band 1")]
    strong, weak = (await ranked([[3], [0], [2], [1]], ["strong", "weak"], anchors=anchors)).scores
    assert (strong, weak) == (pytest.approx(0.55), 0.0)


async def test_empty_answers_score_zero_and_have_no_index() -> None:
    result = await ranked([[1], [0]], ["", "first", "second"])
    assert (result.scores, result.ranking) == ((0.0, 0.0, 1.0), ((1,), (0,)))
    nothing = await ranked("never asked", ["", ""])
    assert (nothing.scores, nothing.ranking) == ((0.0, 0.0), ())
    assert (await ranked("never asked", ["", "only"])).scores == (0.0, 1.0)


async def test_ground_truth_and_anchors_exclude_each_other() -> None:
    with pytest.raises(ValueError):
        await ranked([[0]], ["a"], ground_truth="t", anchors=[RankingAnchor("x", 0.5)])
    with pytest.raises(ValueError):
        await ranked([[0]], ["a"], anchors=[RankingAnchor("x", 0.5), RankingAnchor("y", 0.4)])


async def test_a_group_is_ranked_once_for_each_rubric() -> None:
    rubrics = [RUBRIC, Rubric("A-B", "x")]
    async with ChatServer([{"content": '{"ranking": [[1], [2], [0]]}'}]) as server:
        judge = judge_at(server)
        scores = await rank_group_rubrics(
            ["r1", "r2"], ["first", "second"], ground_truth="t", question="q", judge=judge, rubrics=rubrics
        )
        assert scores == [
            {"rubric_quality": 0.0, "rubric_a_b": 0.0},
            {"rubric_quality": 1.0, "rubric_a_b": 1.0},
        ]
        assert len(server.requests) == 2
        with pytest.raises(ValueError):
            await rank_group_rubrics(
                ["r1"],
                ["first"],
                ground_truth=None,
                question="q",
                judge=judge,
                rubrics=[Rubric("A-B", "x"), Rubric("A B", "y")],
            )
        await judge.aclose()


def proposing(*titles: str) -> Callable[[ScriptedRequest], Answer]:
    """A judge that proposes the titles, and finds one met where an answer holds its words."""

    def script(request: ScriptedRequest) -> Answer:
        prompt = request.body["messages"][-1]["content"]
        criterion = re.search(r"^Criterion: (.+)$", prompt, re.MULTILINE)
        if criterion:
            return {"content": json.dumps({"score": int(f"| {criterion[1]}\n" in prompt)})}
        rubrics = [{"title": title, "description": "d"} for title in titles]
        return {"content": json.dumps({"positive_rubrics": rubrics, "negative_rubrics": []})}

    return script


async def test_adaptive_rubrics_are_kept_only_when_their_scores_vary() -> None:
    cache = RubricCache(max_per_polarity=3)
    async with ChatServer(proposing("first", "neither")) as server:
        judge = judge_at(server)
        found = await generate_and_cache_adaptive_rubrics(
            question="q", ground_truth=None, responses=["first", "second"], judge=judge, cache=cache
        )
        await judge.aclose()
    assert found == AdaptiveRubrics(positive=(Rubric("first", "d"),))
    assert not cache.consider("q", RUBRIC, [0.5, 0.5])
    assert cache.consider("q", RUBRIC, [0.0, 1.0])
    with pytest.raises(ValueError):
        cache.consider("q", RUBRIC, [0.0, float("nan")])


async def test_a_loose_proposal_is_an_error() -> None:
    async with ChatServer(
        [{"content": '{"positive_rubrics": ["be good"], "negative_rubrics": []}'}]
    ) as server:
        with pytest.raises(JudgeError):
            await generate_adaptive_rubrics(
                question="q", ground_truth="t", responses=["a", "b"], judge=judge_at(server)
            )


async def test_single_linkage_joins_the_ends_of_a_chain() -> None:
    result = await cluster_texts(["ab", "abc", "bc"], NgramDiversityConfig(n=1, similarity_threshold=0.5))
    assert (result.cluster_ids, result.divisors, result.n_clusters) == (("0", "0", "0"), (3.0, 3.0, 3.0), 1)


async def test_every_component_is_divided_by_the_size_of_the_cluster() -> None:
    rewards = [{"a": 1.0, "b": 0.5}, {"a": 1.0}, {"a": 0.8}]
    scaled, _ = await scale_by_diversity(rewards, ["same text", "same text", "other"], NgramDiversityConfig())
    assert scaled == [{"a": 0.5, "b": 0.25}, {"a": 0.5}, {"a": 0.8}]


async def test_one_text_needs_no_judge_and_an_omitted_one_is_an_error() -> None:
    async with ChatServer([{"content": '{"assignments": [{"index": 0, "cluster_id": "x"}]}'}]) as server:
        config = LLMDiversityConfig(judge_at(server))
        assert (await cluster_texts(["a"], config)).divisors == (1,)
        assert server.requests == []
        with pytest.raises(JudgeError):
            await cluster_texts(["a", "b"], config)
        await config.judge.aclose()


async def test_an_outage_is_never_a_score() -> None:
    async with ChatServer([Fault(status=400)]) as server:
        judge = judge_at(server)
        with pytest.raises(JudgeError) as caught:
            await evaluate_rubric_ranking(RUBRIC, question="q", responses=["a", "b"], judge=judge)
        assert caught.value.termination_reason == "judge_error"
        await judge.aclose()


def test_configs_pickle() -> None:
    judge = Judge("judge", "http://127.0.0.1:1/v1", StaticBearerAuth("key"))
    for value in (NgramDiversityConfig(), LLMDiversityConfig(judge), RankingAnchor("a", 0.5), RUBRIC):
        assert pickle.loads(pickle.dumps(value)) == value
