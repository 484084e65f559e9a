from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from castform_env_search.config import JudgedConfig, SearchConfig
from castform_env_search.environment import load_question_set, messages_after_question
from pydantic import ValidationError

from benchmax.envs import Environment, Example
from castform.plugins import load_environment
from castform.testing import FakeModel, Reply, ScriptedRequest, ToolUse, assert_conforms

Script = Callable[[ScriptedRequest], Reply | str]


def load(name: str = "search", **args: Any) -> Environment[Any, Any]:
    return load_environment(name, args).environment


async def examples(
    environment: Environment[Any, Any], split: Any = "eval", count: int | None = 4
) -> list[Example[Any]]:
    return list(await environment.create_dataset(split, Path(), max_examples=count))


async def run(environment: Environment[Any, Any], example: Example[Any], script: Script) -> Any:
    async with FakeModel(script) as model:
        group = await model.run_group(environment, example, split="eval")
    await environment.aclose()
    return group.rollouts[0]


def look_then_say(answer: str, *queries: str) -> Script:
    def script(request: ScriptedRequest) -> Reply | str:
        if request.index < len(queries):
            return Reply(tool_calls=[ToolUse(name="search", arguments={"query": queries[request.index]})])
        return answer

    return script


def right(example: Example[Any]) -> str:
    names = [chunk["metadata"]["source_id"] for chunk in example.payload["reference_chunks"]]
    return f"<answer>{example.payload['ground_truth']}</answer>" + "".join(f" [Source: {n}]" for n in names)


async def test_searching_answering_and_citing_is_paid_in_full() -> None:
    environment = load(hops=1)
    for example in await examples(environment, count=6):
        rollout = await run(environment, example, look_then_say(right(example), example.payload["question"]))
        assert rollout.rewards == {"correct": 1.0, "grounded": 1.0, "found": 1.0, "cited": 1.0, "format": 1.0}
        assert rollout.score == pytest.approx(1.7)


async def test_two_documents_are_found_by_two_searches_and_one_earns_half() -> None:
    environment = load(hops=2)
    example, *_ = await examples(environment, count=1)
    first, second = (chunk["metadata"]["source_id"] for chunk in example.payload["reference_chunks"])
    both = look_then_say(right(example), first.replace("-", " "), second.replace("-", " "))
    rollout = await run(environment, example, both)
    assert (rollout.rewards["found"], rollout.rewards["cited"]) == (1.0, 1.0)
    one = look_then_say(f"<answer>x</answer> [Source: {second}]", second.replace("-", " "))
    rollout = await run(load(hops=2, results=1), example, one)
    assert rollout.rewards["found"] == 0.5
    assert rollout.rewards["cited"] == pytest.approx(2 / 3)


async def test_a_citation_that_was_never_found_earns_nothing_nor_does_the_solved_example() -> None:
    environment = load(hops=1)
    example, *_ = await examples(environment, count=1)
    shown = example.payload["prompt_messages"]
    assert [m["role"] for m in shown] == ["system", "user", "assistant", "tool", "assistant", "user"]
    rollout = await run(environment, example, look_then_say(right(example)))
    assert rollout.rewards == {"correct": 1.0, "grounded": 0.0, "found": 0.0, "cited": 0.0, "format": 1.0}
    rollout = await run(environment, example, look_then_say(str(shown[-2]["content"])))
    assert rollout.rewards == {"correct": 0.0, "grounded": 0.0, "found": 0.0, "cited": 0.0, "format": 1.0}
    loose = right(example) + " [Source: pelmouth]"
    rollout = await run(environment, example, look_then_say(loose, example.payload["question"]))
    assert rollout.rewards["cited"] == 0.0


async def test_citing_all_that_was_found_costs_precision() -> None:
    environment = load(hops=1, results=3)
    example, *_ = await examples(environment, count=1)
    seen: list[str] = []

    def script(request: ScriptedRequest) -> Reply | str:
        if request.index == 0:
            return Reply(
                tool_calls=[ToolUse(name="search", arguments={"query": example.payload["question"]})]
            )
        headers = [line for line in request.messages[-1]["content"].splitlines() if line[:1].isdigit()]
        seen[:] = [line.partition("[source: ")[2].partition("]")[0] for line in headers]
        return "<answer>x</answer>" + "".join(f"[Source: {name}]" for name in seen)

    rollout = await run(environment, example, script)
    assert len(seen) == 3
    assert rollout.rewards["cited"] == 0.5  # precision 1/3, recall 1


async def test_mistakes_are_answered_in_words_and_searches_are_bounded() -> None:
    environment = load(max_searches=2)
    example, *_ = await examples(environment, count=1)
    told: list[Mapping[str, Any]] = []

    def script(request: ScriptedRequest) -> Reply | str:
        told[:] = request.messages
        if request.index == 0:
            return Reply(
                tool_calls=[
                    ToolUse(name="search", arguments={"query": "the of a"}),
                    ToolUse(name="search", arguments={"query": "mustard", "limit": 99}),
                ]
            )
        return Reply(tool_calls=[ToolUse(name="search", arguments={"query": "x"})])

    rollout = await run(environment, example, script)
    assert [m["content"] for m in told[-2:]] == ["No results.", "limit must be between 1 and 50, not 99."]
    assert rollout.termination_reason == "tool_budget_exceeded"
    assert rollout.score == 0.0


async def test_given_results_are_read_without_a_tool() -> None:
    environment = load(hops=1, results=1, searched=True, max_searches=0)
    example, *_ = await examples(environment, count=1)
    assert example.payload["prompt_messages"][-1]["content"].endswith(example.payload["given"])
    assert [m["role"] for m in example.payload["prompt_messages"]] == ["system", "user", "assistant", "user"]
    async with FakeModel([right(example)]) as model:
        group = await model.run_group(environment, example)
    await environment.aclose()
    assert "tools" not in model.requests[0].body
    assert group.rollouts[0].rewards == {
        "correct": 1.0,
        "grounded": 1.0,
        "found": 0.0,
        "cited": 1.0,
        "format": 1.0,
    }


async def test_held_out_articles_are_never_asked_about_in_training() -> None:
    environment = load(train_examples=10_000, eval_examples=10_000)
    sides = []
    for split in ("train", "eval"):
        asked = await examples(environment, split, None)
        assert len({e.id for e in asked}) == len(asked) >= 300
        sides.append({c["metadata"]["source_id"] for e in asked for c in e.payload["reference_chunks"]})
    assert not sides[0] & sides[1]
    assert len(sides[0]) + len(sides[1]) >= 160
    assert "pelmouth" not in sides[0] | sides[1]


async def test_the_seed_decides_the_questions_and_hops_which_kind() -> None:
    ids = [[e.id for e in await examples(load(seed=seed), "train", 20)] for seed in (3, 3, 4)]
    assert ids[0] == ids[1] != ids[2]
    for hops in (1, 2):
        asked = await examples(load(hops=hops), "train", 20)
        assert {len(e.payload["reference_chunks"]) for e in asked} == {hops}


async def test_an_environment_and_its_examples_can_be_sent_to_another_process() -> None:
    environment = pickle.loads(pickle.dumps(load(hops=1)))
    example, *_ = await examples(environment, count=1)
    example = Example(example.id, json.loads(json.dumps(example.payload)))
    rollout = await run(environment, example, look_then_say(right(example), example.payload["question"]))
    assert rollout.score == pytest.approx(1.7)


def test_only_what_follows_the_last_question_counts() -> None:
    roles = ["system", "user", "assistant", "user", "assistant", "tool"]
    messages = [{"role": role, "content": str(place)} for place, role in enumerate(roles)]
    assert [m["content"] for m in messages_after_question(messages)] == ["4", "5"]
    assert messages_after_question([{"role": "assistant"}]) == [{"role": "assistant"}]


async def test_a_judge_pays_a_free_answer_and_its_outage_is_no_zero() -> None:
    verdicts = [Reply(content='{"reasoning": "r", "score": 1}'), Reply(content="no idea")]
    with FakeModel(lambda request: verdicts[0]) as judge:
        grant = judge.endpoint.add_session("judge")
        args = {
            "judge_model": "j",
            "judge_base_url": grant.base_url,
            "judge_key_env": "CASTFORM_TEST_JUDGE_KEY",
        }
        environment = load("search/judged", hops=1, **args)
        example, *_ = await examples(environment, count=1)
        free = right(example).replace("</answer>", "").replace("<answer>", "It is ")
        script = look_then_say(f"<answer>{free}</answer>", example.payload["question"])
        rollout = await run(environment, example, script)
        assert (rollout.termination_reason, rollout.score) == ("judge_error", None)
        assert "CASTFORM_TEST_JUDGE_KEY" in rollout.error
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("CASTFORM_TEST_JUDGE_KEY", grant.api_key)
            rollout = await run(environment, example, script)
            assert rollout.rewards["answer_correctness"] == 1.0
            assert rollout.rewards["citation_recall"] == pytest.approx(0.3)
            gold = environment.gold(example)
            rollout = await run(environment, example, lambda request: gold[request.index])
            assert rollout.score > 1.9


@pytest.mark.parametrize(
    ("args", "word"),
    [
        ({"hops": 0}, "hops"),
        ({"hops": 3}, "1 or 2 documents"),
        ({"seed": -1}, "seed"),
        ({"results": 51}, "results"),
        ({"level": 1}, "level"),
        ({"corpus": "/no/such/folder"}, "corpus"),
        ({"corpus": str(Path(__file__).parent)}, "questions must be set with corpus"),
        ({"questions": __file__}, "corpus must be set with questions"),
        ({"max_searches": 0}, "set searched = true"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused(args: dict[str, Any], word: str) -> None:
    with pytest.raises(ValidationError, match=word):
        SearchConfig(**args)


def test_a_judge_has_to_be_named() -> None:
    with pytest.raises(ValidationError, match="judge_model"):
        JudgedConfig()  # type: ignore[call-arg]


def test_every_question_of_one_article_is_answered_in_it_and_most_are_found_by_their_own_words() -> None:
    environment = load()
    index = environment.client.load()  # type: ignore[attr-defined]
    text = {document.source: f"{document.title} {document.content}" for document in index.documents}
    assert len(text) == len(index.documents) == 168
    questions = load_question_set(environment.config, environment.client)  # type: ignore[attr-defined]
    single = [q for q in (*questions.train, *questions.eval) if len(q.sources) == 1]
    assert all(q.answer in text[q.sources[0]] for q in single)
    assert all(source in text for q in (*questions.train, *questions.eval) for source in q.sources)
    found = [q.sources[0] in [d.source for d, _ in index.search(q.text, 3)] for q in single]
    assert sum(found) >= 0.98 * len(single) and len(single) >= 600


def test_it_conforms() -> None:
    assert_conforms("search", examples=2, scripts=4)
