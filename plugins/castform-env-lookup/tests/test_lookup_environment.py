from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from castform_env_lookup.config import LookupConfig
from pydantic import ValidationError

from benchmax.envs import Environment, Example
from castform.plugins import load_environment
from castform.testing import FakeModel, Reply, ScriptedRequest, ToolUse, assert_conforms

Script = Callable[[ScriptedRequest], Reply | str]


def load(**args: Any) -> Environment[Any, Any]:
    return load_environment("lookup", args).environment


async def run(environment: Environment[Any, Any], example: Example[Any], script: Script) -> Any:
    async with FakeModel(script) as model:
        group = await model.run_group(environment, example, split="eval")
    await environment.aclose()
    return group.rollouts[0]


def answer_by_lookup(cells: list[list[str]]) -> Script:
    """Look every cell up, then answer with what the tools said."""

    def script(request: ScriptedRequest) -> Reply:
        if request.index < len(cells):
            place, column = cells[request.index]
            return Reply(tool_calls=[ToolUse(name="get", arguments={"place": place, "column": column})])
        values = [int(m["content"]) for m in request.messages if m["role"] == "tool"]
        return Reply(content=f"<answer>{values[0] - sum(values[1:])}</answer>")

    return script


@pytest.mark.parametrize("lookups", [1, 2])
async def test_looking_it_up_is_paid_in_full(lookups: int) -> None:
    environment = load(lookups=lookups)
    for example in await environment.create_dataset("eval", Path(), max_examples=4):
        cells = example.payload["cells"]
        assert len(cells) == lookups
        rollout = await run(environment, example, answer_by_lookup(cells))
        assert rollout.rewards == {"correct": 1.0, "format": 1.0, "used_tool": 1.0}
        assert len(rollout.calls) == lookups + 1


async def test_a_reply_without_a_lookup_earns_no_tool_reward() -> None:
    environment = load(lookups=1)
    first, second, *_ = await environment.create_dataset("eval", Path(), max_examples=5)
    for reply in ("", "I cannot help.", "x" * 2000, str(first.payload["ground_truth"])):
        rollout = await run(environment, first, lambda _, reply=reply: reply)
        assert rollout.rewards == {"correct": 0.0, "format": 0.0, "used_tool": 0.0}
    rollout = await run(environment, first, lambda _: environment.gold(second))
    assert rollout.rewards == {"correct": 0.0, "format": 1.0, "used_tool": 0.0}


async def test_half_the_lookups_earn_half_and_other_cells_nothing() -> None:
    environment = load(lookups=2)
    (example,) = await environment.create_dataset("eval", Path(), max_examples=1)
    (place, column), _ = example.payload["cells"]
    other = next(c for c in ("height", "people") if c != column)
    arguments = {"place": place.lower(), "column": column}, {"place": place, "column": other}

    def script(request: ScriptedRequest) -> Reply | str:
        if request.index == 0:
            return Reply(tool_calls=[ToolUse(name="get", arguments=a) for a in arguments])
        return "no idea"

    assert (await run(environment, example, script)).rewards["used_tool"] == 0.5


async def test_mistakes_are_answered_in_words_and_never_end_the_rollout() -> None:
    environment = load(lookups=1)
    (example,) = await environment.create_dataset("eval", Path(), max_examples=1)
    ((place, column),) = example.payload["cells"]
    seen: list[Mapping[str, Any]] = []

    def script(request: ScriptedRequest) -> Reply | str:
        seen[:] = request.messages
        if request.index == 0:
            return Reply(
                tool_calls=[
                    ToolUse(name="get", arguments={"place": place[:-1], "column": column}),
                    ToolUse(name="get", arguments={"place": place, "column": "colour"}),
                    ToolUse(name="get", arguments="{broken"),
                    ToolUse(name="search", arguments={"name": place[:-1]}),
                ]
            )
        return "done"

    rollout = await run(environment, example, script)
    assert rollout.termination_reason == "finished"
    answers = [m["content"] for m in seen if m["role"] == "tool"]
    assert len(answers) == 4
    assert place in answers[0]
    assert "height" in answers[1]
    assert json.loads(answers[3]) == [place]


async def test_a_model_that_only_calls_tools_runs_out_of_turns() -> None:
    environment = load(lookups=1)
    (example,) = await environment.create_dataset("eval", Path(), max_examples=1)
    call = Reply(tool_calls=[ToolUse(name="search", arguments={"name": "a"})])
    rollout = await run(environment, example, lambda _: call)
    assert rollout.termination_reason == "max_turns_exceeded"
    assert rollout.rewards["correct"] == 0.0


@pytest.mark.parametrize("lookups", [None, 1, 2])
async def test_held_out_places_never_occur_in_training_questions(lookups: int | None) -> None:
    places = []
    for split in ("train", "eval"):
        dataset = await load(lookups=lookups, train_examples=5000, eval_examples=5000).create_dataset(
            split, Path()
        )
        assert len({e.id for e in dataset}) == len(dataset) >= 100
        places.append({place for e in dataset for place, _ in e.payload["cells"]})
    assert not places[0] & places[1]


async def test_the_seed_decides_the_questions() -> None:
    ids = [
        [e.id for e in await load(seed=seed, train_examples=50).create_dataset("train", Path())]
        for seed in (3, 3, 4)
    ]
    assert ids[0] == ids[1] != ids[2]


async def test_answers_are_positive_numbers() -> None:
    dataset = await load(train_examples=5000).create_dataset("train", Path())
    assert min(e.payload["ground_truth"] for e in dataset) > 0


@pytest.mark.parametrize("args", [{"lookups": 3}, {"seed": -1}, {"eval_examples": 0}, {"level": 1}])
def test_a_setting_out_of_bounds_is_refused(args: dict[str, int]) -> None:
    with pytest.raises(ValidationError, match=next(iter(args))):
        LookupConfig(**args)


def test_it_conforms() -> None:
    assert_conforms("lookup", examples=2, scripts=4)
