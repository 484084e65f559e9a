"""What judges are shown: every text in a fence of its own, and nothing where there is nothing to show."""

from __future__ import annotations

from benchmax.envs import StaticBearerAuth
from benchmax.rewards import Judge, Rubric, fence, match_answer
from benchmax.rewards.adaptive.generate import write_adaptive_prompt
from benchmax.rewards.diversity.reading import write_cluster_prompt
from benchmax.rewards.judge.asking import AGAIN
from benchmax.testing import ChatServer


def test_a_cluster_prompt_shows_every_text_in_order() -> None:
    prompt = write_cluster_prompt(["a b", "c"], context="", instructions="Put like to like.")
    assert prompt.count("Put like to like.") == 1
    assert fence("Answer 0", "a b") + "\n\n" + fence("Answer 1", "c") in prompt
    assert "Question" not in prompt
    asked = write_cluster_prompt(["a b", "c"], context="Why?", instructions="x")
    assert fence("Question", "Why?") + "\n\n" + fence("Answer 0", "a b") in asked


def test_an_adaptive_prompt_shows_what_there_is_and_no_empty_fence() -> None:
    plain = write_adaptive_prompt(
        question="Why?", ground_truth=None, responses=["a b", "c"], existing_rubrics=()
    )
    assert fence("Question", "Why?") in plain
    assert fence("Answer 0", "a b") + "\n\n" + fence("Answer 1", "c") in plain
    assert "Reference answer" not in plain
    assert "Criteria in use" not in plain
    full = write_adaptive_prompt(
        question="Why?",
        ground_truth="Because.",
        responses=["a"],
        existing_rubrics=[Rubric("Short", "The answer is short.")],
    )
    assert fence("Reference answer", "Because.") + "\n\n" in full
    assert "BEGIN Criteria in use, not to be repeated" in full
    assert "Short" in full


async def test_only_a_repeated_question_says_that_it_is_repeated() -> None:
    async with ChatServer([{"content": "no idea"}, {"content": '{"score": 1}'}]) as server:
        judge = Judge("m", server.base_url, StaticBearerAuth("k"), retry_seconds=0.0)
        verdict, raw = await judge.request_json("Give JSON.", request_id="r")
        await judge.aclose()
    first, second = (request.body["messages"][-1]["content"] for request in server.requests)
    assert (first, second) == ("Give JSON.", "Give JSON." + AGAIN)
    assert (verdict, raw) == ({"score": 1}, '{"score": 1}')


def test_a_leading_article_counts_for_nothing_only_by_choice_in_a_sentence_too() -> None:
    text = "The answer is the cat. It purrs."
    assert match_answer(text, "cat") == 0.0
    assert match_answer(text, "cat", ignore_articles=True) == 1.0
    assert match_answer(text, "A cat", ignore_articles=True) == 1.0


def test_a_cluster_prompt_names_the_last_index() -> None:
    assert "2" in write_cluster_prompt(["x", "y", "z"], context="", instructions="i").replace("Answer 2", "")


async def test_an_endpoint_is_asked_for_the_judges_model_under_a_url_with_a_slash_too() -> None:
    async with ChatServer([{"content": '{"score": 1}'}]) as server:
        judge = Judge("some-judge", server.base_url + "/", StaticBearerAuth("k"))
        await judge.request_json("Give JSON.", request_id="r")
        await judge.aclose()
    (request,) = server.requests
    assert (request.path, request.body["model"]) == ("/v1/chat/completions", "some-judge")
