"""What lies in examples/ works as its first lines say."""

from __future__ import annotations

from pathlib import Path

from castform.config import load_config
from castform.plugins import load_environment
from castform.testing import FakeModel

EXAMPLES = Path(__file__).parents[2] / "examples"


async def test_the_one_file_environment_pays_the_right_answer_and_nothing_else() -> None:
    environment = load_environment(str(EXAMPLES / "reverse.py")).environment
    train = await environment.create_dataset("train", EXAMPLES)
    held_out = await environment.create_dataset("eval", EXAMPLES)
    assert not {e.id for e in train} & {e.id for e in held_out}
    replies = {"0": "<answer>tna</answer>", "1": "<answer>ant</answer>", "2": "tna"}
    async with FakeModel(lambda request: replies[request.session_id[-1]]) as model:
        group = await model.run_group(environment, held_out[0], size=3)
    await environment.aclose()
    assert [rollout.rewards["correct"] for rollout in group.rollouts] == [1.0, 0.0, 0.0]


async def test_the_run_config_names_an_environment_whose_rewards_it_weighs() -> None:
    config = load_config(EXAMPLES / "arith.toml")
    environment = load_environment(config.environment.id, config.environment.args).environment
    (example,) = await environment.create_dataset("train", EXAMPLES, max_examples=1)
    async with FakeModel([environment.gold(example)]) as model:
        group = await model.run_group(environment, example)
    await environment.aclose()
    assert set(group.rollouts[0].rewards) == set(config.environment.weights)
