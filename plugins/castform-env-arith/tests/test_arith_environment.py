from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from castform_env_arith.config import ArithConfig, MixedConfig
from pydantic import ValidationError

from benchmax.envs import BaseRollout
from castform.plugins import load_environment
from castform.testing import FakeModel, assert_conforms

IDS = [
    "arith",
    "arith/add",
    "arith/add24",
    "arith/add2",
    "arith/subtract",
    *(f"arith/mixed:{n}" for n in range(1, 6)),
]


def load(id: str):
    name, _, level = id.partition(":")
    return load_environment(name, {"level": int(level)} if level else {}).environment


def rewards(environment, example, reply: str):
    rollout = BaseRollout(
        rollout_id="r",
        termination_reason="finished",
        messages=[*example.payload["prompt_messages"], {"role": "assistant", "content": reply}],
        example_args={"ground_truth": example.payload["ground_truth"]},
    )
    return asyncio.run(environment.compute_reward(rollout))


@pytest.mark.parametrize("id", IDS)
async def test_held_out_prompts_never_occur_in_training(id: str) -> None:
    environment = load(id)
    train = await environment.create_dataset("train", Path())
    held_out = await environment.create_dataset("eval", Path())
    assert len(train) >= 50 and len(held_out) >= 26
    assert not {e.payload["prompt_messages"][-1]["content"] for e in train} & {
        e.payload["prompt_messages"][-1]["content"] for e in held_out
    }
    assert not {e.id for e in train} & {e.id for e in held_out}
    for dataset in (train, held_out):
        assert len({e.id for e in dataset}) == len(dataset)


@pytest.mark.parametrize("id", IDS)
def test_gold_is_paid_in_full_and_probes_are_never_correct(id: str) -> None:
    environment = load(id)
    examples = list(asyncio.run(environment.create_dataset("eval", Path(), max_examples=40)))
    for example in examples:
        assert rewards(environment, example, environment.gold(example)) == {"format": 1.0, "correct": 1.0}
        prompt = example.payload["prompt_messages"]
        truth = example.payload["ground_truth"]
        others = [e for e in examples if e.payload["ground_truth"] != truth]
        unpaid = [
            "",
            "I cannot help with that.",
            "x7 <>" * 400,
            "\n".join(m["content"] for m in prompt),
            prompt[-1]["content"],
            str(truth),
            "".join(f"<answer>{n}</answer>" for n in range(200)),
        ]
        for reply in unpaid:
            assert rewards(environment, example, reply) == {"format": 0.0, "correct": 0.0}, reply
        for solved in (m["content"] for m in prompt if m["role"] == "assistant"):
            assert rewards(environment, example, solved)["correct"] == 0.0
        for other in others:
            assert rewards(environment, example, environment.gold(other))["correct"] == 0.0


async def test_the_prompt_is_a_rule_one_solved_example_and_the_question() -> None:
    environment = load("arith")
    (example,) = await environment.create_dataset("train", Path(), max_examples=1)
    assert [m["role"] for m in example.payload["prompt_messages"]] == ["system", "user", "assistant", "user"]


async def test_the_seed_changes_the_order_and_never_the_held_out_set() -> None:
    questions = []
    for seed in (0, 1):
        environment = load_environment("arith/add", {"seed": seed}).environment
        questions.append([e.id for e in await environment.create_dataset("eval", Path())])
    assert questions[0] != questions[1]
    assert set(questions[0]) == set(questions[1])


async def test_sizes_are_limits_and_max_examples_cuts_further() -> None:
    environment = load_environment("arith/add2", {"train_examples": 30, "solved_examples": 0}).environment
    assert len(await environment.create_dataset("train", Path())) == 30
    assert len(await environment.create_dataset("train", Path(), max_examples=5)) == 5
    with pytest.raises(ValueError, match="max_examples"):
        await environment.create_dataset("train", Path(), max_examples=0)


@pytest.mark.parametrize(
    ("model", "args"),
    [
        (ArithConfig, {"seed": -1}),
        (ArithConfig, {"train_examples": 0}),
        (ArithConfig, {"solved_examples": 9}),
        (ArithConfig, {"level": 2}),
        (MixedConfig, {"level": 6}),
    ],
)
def test_a_setting_out_of_bounds_is_refused(model: type[ArithConfig], args: dict[str, int]) -> None:
    with pytest.raises(ValidationError, match=next(iter(args))):
        model(**args)


async def test_a_group_of_rollouts_is_scored_reply_by_reply() -> None:
    environment = load("arith")
    (example,) = await environment.create_dataset("train", Path(), max_examples=1)
    truth = example.payload["ground_truth"]
    replies = {
        "0": f"<answer>{truth}</answer>",
        "1": f"<answer>{truth + 1}</answer>",
        "2": f"It is {truth}.",
        "3": "",
    }
    async with FakeModel(lambda request: replies[request.session_id[-1]]) as model:
        group = await model.run_group(environment, example, size=4)
    await environment.aclose()
    assert [(r.rewards["format"], r.rewards["correct"]) for r in group.rollouts] == [
        (1, 1),
        (1, 0),
        (0, 0),
        (0, 0),
    ]
    assert {r.termination_reason for r in group.rollouts} == {"finished"}
    assert all(len(request.messages) == 4 for request in model.requests)


def test_it_conforms() -> None:
    assert_conforms("arith", examples=2, scripts=4)
