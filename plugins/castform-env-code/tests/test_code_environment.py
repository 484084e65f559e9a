from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import castform_env_code
import pytest
from castform_env_code.candidate import CandidateRun, Raised, Returned
from castform_env_code.config import CodeConfig
from castform_env_code.rewards import passed, passed_reward, passed_share, runs
from castform_env_code.tasks import load_tasks
from castform_env_code.tasks.task import make_hidden, split_of
from pydantic import ValidationError

from castform.plugins import DatasetSpec, RewardSpec, load_environment, load_registry
from castform.plugins.references import call_factory
from castform.testing import FakeModel, assert_conforms


def load(id: str = "code", **args: Any):
    return load_environment(id, args).environment


def examples(environment, split: str = "eval", count: int | None = None):
    return list(asyncio.run(environment.create_dataset(split, Path(), max_examples=count)))


async def test_gold_is_paid_in_full_and_other_code_is_not() -> None:
    environment = load("code/easy", seed=5)
    first, second = list(await environment.create_dataset("train", Path(), max_examples=2))
    name = first.payload["task"]
    replies = [
        environment.gold(first),
        environment.gold(second),
        f"```python\ndef {name}(*args):\n    return 0\n```",
        f"```python\ndef {name}(*args):\n    print('passed')\n    raise SystemExit(0)\n```",
        f"```python\nimport os\ndef {name}(*args):\n    os._exit(0)\n```",
        f"```python\nclass Same:\n    def __eq__(self, other): return True\ndef {name}(*args):\n    return Same()\n```",
        "I cannot help with that.",
        "\n".join(m["content"] for m in first.payload["prompt_messages"]),
    ]
    async with FakeModel(lambda request: replies[int(request.session_id.rpartition("-")[2])]) as model:
        group = await model.run_group(environment, first, size=len(replies))
    await environment.aclose()
    assert [(r.rewards["runs"], r.rewards["passed"]) for r in group.rollouts] == [
        (1, 1),
        (0, 0),
        (1, 0),
        (1, 0),
        (1, 0),
        (1, 0),
        (0, 0),
        (0, 0),
    ]


def test_what_a_test_expects_is_nowhere_in_an_example() -> None:
    for example in examples(load(), "train"):
        task = load_tasks()[example.payload["task"]]
        text = repr(example)
        assert set(example.payload) == {"prompt_messages", "question", "task", "level", "tests", "tests_seed"}
        calls = [
            f"{task.name}({', '.join(map(repr, t.arguments))})" for t in make_hidden(task, count=12, seed=0)
        ]
        assert not [call for call in calls if call in text]


def test_tasks_are_held_out_by_name_whatever_the_seed() -> None:
    names = {}
    for seed in (0, 1):
        for split in ("train", "eval"):
            names[seed, split] = [e.id for e in examples(load(seed=seed), split)]
            assert {split_of(name) for name in names[seed, split]} == {split}
    assert set(names[0, "train"]) == set(names[1, "train"])
    assert names[0, "train"] != names[1, "train"]
    assert len(names[0, "train"]) + len(names[0, "eval"]) == 66
    assert {e.payload["level"] for e in examples(load("code/easy"))} == {1}
    assert {e.payload["level"] for e in examples(load("code", level=3))} == {3}
    assert len(examples(load(train_examples=5), "train")) == 5 and len(examples(load(), count=2)) == 2


def test_the_share_that_pays_starts_above_what_needs_no_work() -> None:
    hidden = make_hidden(load_tasks()["is_even"], count=12, seed=0)
    right = [Returned(value=test.expected) for test in hidden]
    always = [Returned(value=True)] * 12
    chance = max(sum(t.expected is each for t in hidden) for each in (True, False)) / 12

    def pay(outcomes: list[Any], scoring: Any) -> float:
        run = CandidateRun(ending="finished", defined=True, outcomes=tuple(outcomes))
        return passed_reward(run, hidden, scoring)

    assert pay(right, "all") == pay(right, "share") == 1.0
    assert pay(always, "share") == 0.0 == pay(always, "all")
    one_wrong = [*right[:-1], Raised(error="x")]
    assert pay(one_wrong, "all") == 0.0
    assert pay(one_wrong, "share") == pytest.approx((11 / 12 - chance) / (1 - chance))
    assert pay(right[:-1], "all") == 0.0  # a process that died before the last call
    assert pay([], "share") == 0.0


async def test_the_rewards_for_composed_environments_take_an_example() -> None:
    plugin = load_registry().load("code")
    assert set(plugin.specs(RewardSpec)) == {"passed", "passed-share", "runs"}
    (spec,) = plugin.specs(DatasetSpec).values()
    dataset, _ = call_factory(plugin, spec, {"level": 2, "tests": 6})
    (example,) = dataset.create("eval", Path(), max_examples=1)
    fields = {k: v for k, v in example.payload.items() if k != "prompt_messages"}
    gold = fields["ground_truth"]
    assert gold == load("code").gold(example)
    completion = [{"role": "assistant", "content": gold}]
    assert [await r(completion, **fields) for r in (passed, passed_share, runs)] == [1.0, 1.0, 1.0]
    assert [await r("no idea", **fields) for r in (passed, passed_share, runs)] == [0.0, 0.0, 0.0]
    with pytest.raises(ValueError, match="no task is called 'nothing'"):
        await passed(gold, task="nothing", tests=6, tests_seed=0)


@pytest.mark.parametrize(
    "args",
    [{"level": 4}, {"tests": 1}, {"cpu_seconds": 0}, {"memory_mb": 1}, {"scoring": "most"}, {"path": 1}],
)
def test_a_setting_out_of_bounds_is_refused(args: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=next(iter(args))):
        CodeConfig(**args)


def test_it_conforms() -> None:
    assert_conforms("code", args={"scoring": "share"}, examples=1, scripts=2)


@pytest.mark.parametrize("name", ["default", "easy"])
def test_the_certificate_that_comes_with_it_holds(name: str) -> None:
    package = Path(castform_env_code.__file__).parent
    certificate = json.loads((package / "certificates" / f"code--{name}.json").read_text(encoding="utf-8"))
    pin = load_environment(f"code/{name}").pin
    assert certificate["passed"] and certificate["environment_name"] == name
    told = {key: certificate["environment"][key] for key in ("distribution", "version", "content_sha256")}
    assert told == {key: getattr(pin, key) for key in told}
