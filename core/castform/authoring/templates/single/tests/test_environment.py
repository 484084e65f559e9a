from __future__ import annotations

from pathlib import Path

from castform.plugins import load_environment
from castform.testing import FakeModel, assert_conforms


def test_it_keeps_the_rules_that_all_environments_keep() -> None:
    assert_conforms("PLUGIN_NAME")


async def test_the_right_number_is_paid_and_nothing_else_is() -> None:
    environment = load_environment("PLUGIN_NAME").environment
    (example,) = await environment.create_dataset("eval", Path(), max_examples=1)
    replies = [environment.gold(example), "<answer>0</answer>", "I do not know.", ""]
    async with FakeModel(lambda request: replies[int(request.session_id[-1])]) as model:
        group = await model.run_group(
            environment, example, size=len(replies), split="eval"
        )
    await environment.aclose()
    assert [rollout.rewards["correct"] for rollout in group.rollouts] == [
        1.0,
        0.0,
        0.0,
        0.0,
    ]


async def test_no_held_out_numeral_is_trained_on() -> None:
    environment = load_environment("PLUGIN_NAME").environment
    train, held_out = [
        await environment.create_dataset(split, Path()) for split in ("train", "eval")
    ]
    assert not {example.id for example in train} & {example.id for example in held_out}
