from __future__ import annotations

import asyncio
import json
import os
import pickle
from pathlib import Path
from typing import Any

import castform_env_math
import pytest
from castform_env_math.config import JsonlConfig, MathConfig
from castform_env_math.jsonl import read_final_answer
from pydantic import ValidationError

from benchmax.envs import BaseRollout
from castform.plugins import ConfigError, DatasetSpec, RewardSpec, load_environment, load_registry
from castform.plugins.references import call_factory
from castform.testing import FakeModel, assert_conforms

MADE = ["math", "math/arithmetic-words", "math/equations", "math/fractions", "math/percent"]


def load(id: str, **args: Any):
    return load_environment(id, args).environment


def examples(environment, split: str = "eval", count: int | None = 30):
    return list(asyncio.run(environment.create_dataset(split, Path(), max_examples=count)))


def rewards(environment, example, reply: str):
    rollout = BaseRollout(
        rollout_id="r",
        termination_reason="finished",
        messages=[*example.payload["prompt_messages"], {"role": "assistant", "content": reply}],
        example_args={k: v for k, v in example.payload.items() if k != "prompt_messages"},
    )
    return asyncio.run(environment.compute_reward(rollout))


@pytest.mark.parametrize("style", ["tags", "boxed"])
@pytest.mark.parametrize("id", MADE)
def test_gold_is_paid_in_full_and_what_needs_no_knowledge_is_not(id: str, style: str) -> None:
    environment = load(id, style=style, level=2)
    shown = examples(environment, count=12)
    for example in shown:
        assert rewards(environment, example, environment.gold(example)) == {"format": 1.0, "correct": 1.0}
        prompt, truth = example.payload["prompt_messages"], example.payload["ground_truth"]
        for reply in ("", "I cannot help.", "\n".join(m["content"] for m in prompt), truth):
            assert rewards(environment, example, reply)["correct"] == 0.0
        for solved in (m["content"] for m in prompt if m["role"] == "assistant"):
            assert rewards(environment, example, solved) == {"format": 1.0, "correct": 0.0}
        others = [o for o in shown if o.payload["ground_truth"] != truth]
        assert {rewards(environment, example, environment.gold(o))["correct"] for o in others} == {0.0}


def test_the_prompt_is_a_rule_a_solved_example_and_the_problem() -> None:
    (example,) = examples(load("math/fractions"), "train", 1)
    messages = example.payload["prompt_messages"]
    assert [m["role"] for m in messages] == ["system", "user", "assistant", "user"]
    assert "<answer>" in messages[0]["content"] and "lowest terms" in messages[0]["content"]
    assert messages[-1]["content"] == example.payload["question"]
    (example,) = examples(load("math/percent", style="boxed", working=True, solved_examples=2), "train", 1)
    messages = example.payload["prompt_messages"]
    assert len(messages) == 6
    assert "\\boxed{}" in messages[0]["content"]
    assert messages[2]["content"].splitlines()[-1].startswith("\\boxed{")
    assert len(messages[2]["content"].splitlines()) == 2


async def test_a_group_is_scored_reply_by_reply() -> None:
    environment = load("math/equations")
    (example,) = await environment.create_dataset("train", Path(), max_examples=1)
    truth = int(example.payload["ground_truth"])
    replies = [f"<answer>{truth}</answer>", f"<answer>{truth + 1}</answer>", f"It is {truth}.", ""]
    async with FakeModel(lambda request: replies[int(request.session_id[-1])]) as model:
        group = await model.run_group(environment, example, size=4)
    await environment.aclose()
    assert [(r.rewards["format"], r.rewards["correct"]) for r in group.rollouts] == [
        (1, 1),
        (1, 0),
        (0, 0),
        (0, 0),
    ]


@pytest.mark.parametrize("id", MADE)
def test_it_can_be_sent_to_another_process(id: str) -> None:
    environment = load(id, level=3)
    copy = pickle.loads(pickle.dumps(environment))
    assert examples(copy, count=5) == examples(environment, count=5)


def test_sizes_are_limits() -> None:
    environment = load("math", train_examples=7)
    assert len(examples(environment, "train", None)) == 7
    assert [e.id for e in examples(environment, "train", 3)] == [
        e.id for e in examples(environment, "train", None)
    ][:3]


@pytest.mark.parametrize(
    ("model", "args", "told"),
    [
        (MathConfig, {"level": 4}, "level"),
        (MathConfig, {"solved_examples": 3}, "solved_examples"),
        (MathConfig, {"style": "latex"}, "style"),
        (MathConfig, {"path": "x"}, "path"),
        (JsonlConfig, {}, "path"),
        (JsonlConfig, {"path": "x", "eval_share": 1.0}, "eval_share"),
        (JsonlConfig, {"path": "x", "solved_question": "1+1?"}, "solved_answer"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused(model: Any, args: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        model(**args)


def write(path: Path, rows: list[Any]) -> str:
    path.write_text("\n".join(json.dumps(row) for row in rows) + "\n", encoding="utf-8")
    return str(path)


def gsm_rows(count: int) -> list[dict[str, str]]:
    return [
        {"question": f"What is {n} + {n}?", "answer": f"{n} + {n} = <<{n}+{n}={2 * n}>>{2 * n}\n#### {2 * n}"}
        for n in range(count)
    ]


def test_rows_of_both_shapes_are_read_and_their_golds_paid(tmp_path: Path) -> None:
    path = write(
        tmp_path / "rows.jsonl",
        [
            *gsm_rows(1),
            {"problem": "Half of one?", "solution": "It is $\\boxed{\\frac{1}{2}}$."},
            {"problem": "Capital of France?", "solution": "Paris"},
            {"question": "Half of three?", "answer": 1.5},
        ],
    )
    environment = load(
        "math/jsonl", path=path, style="boxed", eval_share=0.0001, solved_question="2+2?", solved_answer="4"
    )
    shown = examples(environment, "train", None)
    assert [e.payload["ground_truth"] for e in shown] == ["0", "\\frac{1}{2}", "Paris", "1.5"]
    assert [m["content"] for m in shown[0].payload["prompt_messages"][1:]] == [
        "2+2?",
        "\\boxed{4}",
        "What is 0 + 0?",
    ]
    for example in shown:
        assert rewards(environment, example, environment.gold(example)) == {"format": 1.0, "correct": 1.0}
    assert rewards(environment, shown[1], "\\boxed{0.5}")["correct"] == 1.0
    assert rewards(environment, shown[1], "\\boxed{2}")["correct"] == 0.0


def test_a_share_of_the_questions_is_held_out_whatever_their_order(tmp_path: Path) -> None:
    rows = gsm_rows(200)
    ids = []
    for order in (rows, rows[::-1] + rows[:20]):
        path = write(tmp_path / "rows.jsonl", order)
        environment = load("math/jsonl", path=path)
        ids.append([{e.id for e in examples(environment, split, None)} for split in ("train", "eval")])
    assert ids[0] == ids[1]
    train, held_out = ids[0]
    assert not train & held_out and len(train | held_out) == 200 and 20 <= len(held_out) <= 60


def test_a_question_of_the_held_out_file_is_never_trained_on(tmp_path: Path) -> None:
    path = write(tmp_path / "train.jsonl", gsm_rows(10))
    other = write(tmp_path / "eval.jsonl", [{"question": " what  is 3 + 3? ", "answer": "#### 6"}])
    environment = load("math/jsonl", path=path, eval_path=other, train_examples=5)
    train, held_out = examples(environment, "train", None), examples(environment, "eval", None)
    assert len(train) == 5 and len(held_out) == 1
    assert "What is 3 + 3?" not in [e.payload["question"] for e in train]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ('{"question": "1+1?"}\n', r"rows.jsonl:1 has no text in answer or solution"),
        (
            '\n{"text": "1+1?", "answer": "2"}\n',
            r"rows.jsonl:2 has no text in question or problem.*text, answer",
        ),
        ("[1]\n", "is list, not a JSON object"),
        ("{\n", "is not JSON"),
        ('{"question": "1+1?", "answer": "' + "so " * 100 + '"}', "no answer can be told"),
        ("", "no problems for the split 'train'"),
        (b"\xff\xfe", "cannot be read"),
        (None, "cannot be read.*No such file"),
    ],
)
def test_a_file_that_cannot_be_used_says_why(tmp_path: Path, content: str | bytes | None, told: str) -> None:
    path = tmp_path / "rows.jsonl"
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ConfigError, match=f"(?s){told}"):
        examples(load("math/jsonl", path=str(path)), "train", None)


def test_a_pipe_or_a_device_is_told_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "device.jsonl").symlink_to("/dev/zero")
    good = write(tmp_path / "good.jsonl", gsm_rows(3))
    for given in (
        {"path": str(tmp_path / "pipe.jsonl")},
        {"path": str(tmp_path / "device.jsonl")},
        {"path": good, "eval_path": str(tmp_path / "pipe.jsonl")},
    ):
        with pytest.raises(
            ConfigError, match=r"(pipe|device).jsonl' cannot be read: it is a pipe or a device"
        ):
            examples(load("math/jsonl", **given), "train", None)


def test_the_last_box_or_mark_is_the_answer_of_a_solution() -> None:
    assert read_final_answer("first \\boxed{1}, no: \\boxed{2}") == "2"
    assert read_final_answer("#### 3 #### 4 ") == "4"
    assert read_final_answer("  ") is read_final_answer("#### ") is read_final_answer("x" * 201) is None


def test_datasets_and_rewards_are_registered_and_work() -> None:
    plugin = load_registry().load("math")
    assert set(plugin.specs(RewardSpec)) == {"correct", "tagged", "boxed"}
    specs = plugin.specs(DatasetSpec).values()
    assert {f"math/{spec.name}" for spec in specs} == set(MADE[1:])
    for spec in specs:
        dataset, _ = call_factory(plugin, spec, {"level": 3, "eval_examples": 5})
        made = list(dataset.create("eval", Path()))
        assert len(made) == 5
        assert all(e.payload["question"] and e.payload["ground_truth"] for e in made)


def test_it_conforms() -> None:
    assert_conforms("math", examples=2, scripts=2)


@pytest.mark.parametrize("name", ["arithmetic-words", "default", "equations", "fractions", "percent"])
def test_the_certificate_that_comes_with_it_holds(name: str) -> None:
    package = Path(castform_env_math.__file__).parent
    certificate = json.loads((package / "certificates" / f"math--{name}.json").read_text(encoding="utf-8"))
    pin = load_environment(f"math/{name}").pin
    assert certificate["passed"] and certificate["environment_name"] == name
    told = {key: certificate["environment"][key] for key in ("distribution", "version", "content_sha256")}
    assert told == {key: getattr(pin, key) for key in told}
