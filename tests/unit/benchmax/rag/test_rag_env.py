"""RagEnv against a scripted model, a scripted judge and a small search."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmax.envs import Environment, InjectedAuth, RolloutFailure, StaticBearerAuth, bind_model_auth
from benchmax.rag import RagEnv, SearchClient, judge_answer_quality, search_documents
from benchmax.rewards.judge import Judge, JudgeError
from castform.testing import FakeModel, Reply, ScriptedRequest, ToolUse

ROW = {
    "question": "Who keeps the lamp?",
    "answer": "Odo",
    "reference_chunks": [{"content": "…", "metadata": {"file": "a/lamp.md"}}],
}
RIGHT = "<answer>Odo [Source: a/lamp.md]</answer>"


class Search:
    """Finds one document; raises what it is told to."""

    def __init__(
        self, *, sources: Sequence[str] = ("a/lamp.md",), modes: Sequence[str] = ("lexical",)
    ) -> None:
        self.sources, self.modes = sources, list(modes)
        self.asked: list[tuple[str, str, int]] = []
        self.error: Exception | None = None

    @property
    def available_modes(self) -> list[str]:
        return self.modes

    async def search(self, query: str, mode: str = "auto", top_k: int = 10) -> list[Any]:
        self.asked.append((query, mode, top_k))
        if self.error is not None:
            raise self.error
        return [{"content": "Odo.", "source": s, "metadata": {}, "score": 2.0} for s in self.sources]


class Judging:
    """A judge's endpoint: gives the scores in turn, the last one for ever; keeps what it was asked."""

    def __init__(self, *scores: float | None) -> None:
        self.scores = scores
        self.prompts: list[str] = []
        self.server = FakeModel(self._reply)

    def _reply(self, request: ScriptedRequest) -> Reply:
        score = self.scores[min(len(self.prompts), len(self.scores) - 1)]
        self.prompts.append(request.messages[-1]["content"])
        return Reply(
            content="I cannot say." if score is None else json.dumps({"reasoning": "r", "score": score})
        )

    def grant(self) -> Any:
        return self.server.endpoint.add_session("judge")


async def attempt(
    tmp_path: Path,
    replies: Sequence[Any] | Callable[[ScriptedRequest], Any],
    *,
    search: Search | None = None,
    scores: Sequence[float | None] = (1.0,),
    row: dict[str, Any] | None = None,
    size: int = 1,
    **settings: Any,
) -> tuple[Any, Judging, FakeModel]:
    (tmp_path / "train.jsonl").write_text(json.dumps(row or ROW) + "\n")
    judging = Judging(*scores)
    grant = judging.grant()
    env = RagEnv(
        search or Search(),
        judge_base_url=grant.base_url,
        judge_model="judge",
        judge_auth=InjectedAuth("judge"),
        **settings,
    )
    object.__setattr__(env.judge, "max_retries", 0)
    (example,) = await env.create_dataset("train", tmp_path)
    async with FakeModel(replies) as model:
        with bind_model_auth({"judge": StaticBearerAuth(grant.api_key)}):
            group = await model.run_group(env, example, size=size)
        await env.aclose()
    judging.server.close()
    return group, judging, model


def look(**arguments: Any) -> Reply:
    return Reply(tool_calls=[ToolUse(name="search", arguments={"query": "lamp", **arguments})])


async def test_a_right_answer_that_was_looked_up_and_cited_is_paid_in_full(tmp_path: Path) -> None:
    group, judging, model = await attempt(tmp_path, [look(), RIGHT])
    rewards = group.rollouts[0].rewards
    assert rewards == {
        "answer_correctness": 1.0,
        "retrieval_hit": 0.3,
        "citation_recall": 0.3,
        "citation_grounding": 0.2,
        "answer_length": pytest.approx(0.2 * (1 - len("Odo [Source: a/lamp.md]") / 600)),
    }
    assert "Who keeps the lamp?" in judging.prompts[0] and len(judging.prompts) == 1
    system, user, _, tool = model.requests[1].messages
    assert "[Source: name]" in system["content"] and "10 times" in system["content"]
    assert user["content"] == "Who keeps the lamp?"
    assert tool["content"] == "1. — [source: a/lamp.md] (score: 2.000)\n   Odo."


async def test_a_wrong_answer_keeps_the_pay_for_finding_alone(tmp_path: Path) -> None:
    group, _, _ = await attempt(tmp_path, [look(), RIGHT], scores=[0.0], w_retrieval_hit=0.5)
    rewards = dict(group.rollouts[0].rewards)
    assert rewards.pop("retrieval_hit") == 0.5
    assert set(rewards.values()) == {0.0}


@pytest.mark.parametrize(
    ("replies", "sources"),
    [
        ([RIGHT], ("a/lamp.md",)),
        ([look(), RIGHT], ("b/lamp.md",)),
        ([look(), "Odo [Source: a/lamp.md]"], ("a/lamp.md",)),
        ([look(), "<answer></answer>"], ("a/lamp.md",)),
    ],
)
async def test_without_an_answer_or_a_hit_everything_is_zero_and_no_judge_is_asked(
    tmp_path: Path, replies: list[Any], sources: tuple[str, ...]
) -> None:
    group, judging, _ = await attempt(tmp_path, replies, search=Search(sources=sources))
    assert len(group.rollouts[0].rewards) == 5
    assert group.rollouts[0].score == 0.0
    assert judging.prompts == []


async def test_a_judge_without_a_verdict_is_a_failed_rollout_and_costs_no_sibling(tmp_path: Path) -> None:
    group, judging, _ = await attempt(tmp_path, [look(), RIGHT], scores=[None, 1.0], size=2)
    failed, scored = sorted(group.rollouts, key=lambda rollout: rollout.score is not None)
    assert (failed.termination_reason, failed.rewards, failed.score) == ("judge_error", {}, None)
    assert "no verdict" in failed.error
    assert scored.rewards["answer_correctness"] == 1.0
    assert len(judging.prompts) == 2


async def test_a_search_out_of_order_is_a_failed_rollout_and_one_that_refuses_a_query_is_told(
    tmp_path: Path,
) -> None:
    search = Search()
    search.error = OSError("index gone")
    group, _, _ = await attempt(tmp_path, [look(), RIGHT], search=search)
    rollout = group.rollouts[0]
    assert (rollout.termination_reason, rollout.score) == ("tool_error", None)
    assert "OSError: index gone" in rollout.error
    search.error = ValueError("bad syntax")
    group, _, model = await attempt(tmp_path, [look(), "<answer>?</answer>"], search=search)
    assert "bad syntax" in model.requests[1].messages[-1]["content"]
    assert group.rollouts[0].termination_reason == "finished"
    search.error = RolloutFailure("sandbox_error", "no disk")
    group, _, _ = await attempt(tmp_path, [look(), RIGHT], search=search)
    assert group.rollouts[0].termination_reason == "sandbox_error"


async def test_the_models_own_mistakes_are_answered_in_words(tmp_path: Path) -> None:
    calls = [
        ToolUse(name="search", arguments=arguments)
        for arguments in (
            {"query": " "},
            {"query": "x", "limit": 0},
            {"query": "x", "limit": 10**9},
            {"query": "x", "limit": "5"},
            {"query": "x", "limit": True},
            {},
            {"query": "x", "k": 1},
        )
    ]
    search = Search()
    _, _, model = await attempt(tmp_path, [Reply(tool_calls=calls), "<answer>?</answer>"], search=search)
    told = [m["content"] for m in model.requests[1].messages if m["role"] == "tool"]
    assert "query is empty" in told[0]
    assert "between 1 and 50, not 0" in told[1] and "between 1 and 50" in told[2]
    assert all("limit" in text for text in told[3:5])
    assert "query" in told[5] and "'k'" in told[6]
    assert search.asked == []


async def test_a_client_gets_the_limit_and_the_best_of_its_modes(tmp_path: Path) -> None:
    search = Search(modes=("vector", "lexical", "hybrid"))
    _, _, model = await attempt(
        tmp_path, [look(limit=3), look(mode="vector"), look(mode="magic"), RIGHT], search=search
    )
    assert search.asked == [("lamp", "hybrid", 3), ("lamp", "vector", 10)]
    properties = model.requests[0].body["tools"][0]["function"]["parameters"]["properties"]
    assert properties["mode"]["enum"] == ["vector", "lexical", "hybrid"]
    assert "'mode' must be one of" in model.requests[3].messages[-1]["content"]


@pytest.mark.parametrize(
    ("modes", "chosen"), [((), "auto"), (("vector",), "vector"), (("vector", "lexical"), "lexical")]
)
async def test_one_mode_is_no_choice(modes: tuple[str, ...], chosen: str) -> None:
    search = Search(modes=modes)
    assert isinstance(search, SearchClient)
    await search_documents(search, "x", limit=2)
    assert search.asked == [("x", chosen, 2)]


async def test_a_client_that_gives_more_than_asked_for_is_cut_and_one_that_gives_junk_fails_typed() -> None:
    text = await search_documents(Search(sources=("a", "b", "c")), "x", limit=2)
    assert text.count("[source:") == 2
    search = Search(sources=(3,))  # type: ignore[arg-type]
    with pytest.raises(RolloutFailure, match="'source'") as caught:
        await search_documents(search, "x")
    assert caught.value.termination_reason == "tool_error"


async def test_searches_are_bounded(tmp_path: Path) -> None:
    group, judging, _ = await attempt(tmp_path, [look()] * 3, max_search_calls=2)
    rollout = group.rollouts[0]
    assert (rollout.termination_reason, rollout.score) == ("tool_budget_exceeded", 0.0)
    assert judging.prompts == []


@pytest.mark.parametrize("calls", [0, True, 2.0])
def test_a_senseless_budget_is_refused(calls: Any) -> None:
    with pytest.raises(ValueError, match="max_search_calls"):
        RagEnv(Search(), judge_base_url="http://x/v1", judge_model="j", max_search_calls=calls)


async def test_rows_without_references_are_judged_without_a_hit(tmp_path: Path) -> None:
    row = {"question": "Who keeps the lamp?", "answer": "Odo"}
    group, _, _ = await attempt(tmp_path, ["<answer>Odo</answer>"], row=row)
    rewards = group.rollouts[0].rewards
    assert (rewards["answer_correctness"], rewards["retrieval_hit"]) == (1.0, 0.0)


async def test_what_gold_says_is_paid(tmp_path: Path) -> None:
    env = RagEnv(Search(), judge_base_url="http://x/v1", judge_model="j", system_prompt="")
    example = env.row_to_example(ROW)
    assert [m["role"] for m in example.payload["prompt_messages"]] == ["user"]
    turns = env.gold(example)
    assert turns is not None
    group, _, _ = await attempt(tmp_path, turns)
    assert group.rollouts[0].score > 1.99
    assert env.gold(env.row_to_example({**ROW, "answer": None})) is None


@pytest.mark.parametrize(
    "row",
    [{"answer": "x"}, {"question": 3}, {"question": " "}, {"question": "x", "reference_chunks": {"a": 1}}],
)
async def test_a_row_that_cannot_be_asked_names_its_line(tmp_path: Path, row: dict[str, Any]) -> None:
    (tmp_path / "eval.jsonl").write_text(json.dumps(ROW) + "\n" + json.dumps(row) + "\n")
    env = RagEnv(Search(), judge_base_url="http://x/v1", judge_model="j")
    with pytest.raises(TypeError, match=r"question|reference_chunks") as caught:
        await env.create_dataset("eval", tmp_path)
    assert "eval.jsonl:2" in "".join(caught.value.__notes__)
    assert len(await env.create_dataset("eval", tmp_path, max_examples=1)) == 1


async def test_quality_is_two_verdicts_and_an_outage_is_an_error_not_zero() -> None:
    judging = Judging(1.0, 0.0)
    grant = judging.grant()
    judge = Judge("judge", grant.base_url, StaticBearerAuth(grant.api_key), max_retries=0, retry_seconds=0.0)
    texts = {"question": "q", "ground_truth": "Odo", "judge": judge}
    assert sorted(await judge_answer_quality(response="Odo", **texts)) == [0.0, 1.0]
    assert await judge_answer_quality(response="  ", **texts) == (0.0, 0.0)
    assert len(judging.prompts) == 2
    judging.scores = (None,)
    with pytest.raises(JudgeError):
        await judge_answer_quality(response="Odo", **texts)
    await judge.aclose()
    judging.server.close()


def test_the_prompt_is_a_class_method_that_a_subclass_may_replace() -> None:
    class Mine(RagEnv):
        @classmethod
        def render_system_prompt(cls, *, corpus_description: str, max_search_calls: int) -> str:
            return f"{corpus_description}|{max_search_calls}"

    env: Environment[Any, Any] = Mine(
        Search(), judge_base_url="http://x/v1", judge_model="j", max_search_calls=3
    )
    assert isinstance(env, RagEnv)
    assert env.max_turns == 4
    prompt = env.row_to_example(ROW).payload["prompt_messages"][0]["content"]
    assert prompt == "a collection of documents|3"
    assert "two maps" in RagEnv.render_system_prompt(corpus_description="two maps", max_search_calls=1)
