"""Rubrics, rows and messages, without the library: what it hands over is small enough to write down."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from castform_env_verifiers.config import VerifiersConfig
from castform_env_verifiers.environment import VerifiersEnvironment, _failure
from castform_env_verifiers.loading import make_environment
from castform_env_verifiers.messages import plain_messages, plain_row, split_share
from castform_env_verifiers.scoring import plan_rubric, raise_faults, read_rewards

from benchmax.envs import RolloutFailure
from benchmax.envs.model_client import request_defaults
from castform.plugins import ConfigError, MissingError


def make_rubric(*funcs, weights=None, module="verifiers.rubrics.rubric", together=False, rubrics=()):
    """A rubric as the library has them: functions with weights, scored by methods of a known module."""

    async def score(self, states):
        for function in self.funcs:
            try:
                result = function("completion", "answer")
                await result if hasattr(result, "__await__") else None
            except Exception:  # noqa: BLE001 - the library goes on with a zero
                pass

    score.__module__ = module
    cls = type("Rubric", (), {"score_rollout": score, "score_group": score})
    rubric = cls()
    rubric.funcs, rubric.weights = list(funcs), list(weights or [1.0] * len(funcs))
    rubric.rubrics, rubric.has_group_rewards = list(rubrics), together
    return rubric


def good(completion, answer):
    return 1.0


def short(completion, answer):
    return 0.5


def broken(completion, answer):
    raise ValueError("no answer in it")


async def broken_later(completion, answer):
    raise KeyError("answer")


def make_inner(**changes):
    rows = [
        {"prompt": [{"role": "user", "content": f"q{i}"}], "answer": str(i), "example_id": i}
        for i in range(20)
    ]
    fields = {
        "rubric": make_rubric(good),
        "dataset": rows,
        "dataset_source": None,
        "eval_dataset": None,
        "eval_dataset_source": None,
        "get_dataset": lambda: rows,
        "get_eval_dataset": lambda: rows[:5],
        "sampling_args": {"n": 1, "temperature": 0.1, "extra_body": {"own": 1}},
    }
    return SimpleNamespace(**{**fields, **changes})


def test_functions_of_all_rubrics_are_components_with_their_weights():
    group = make_rubric(
        module="verifiers.rubrics.rubric_group",
        rubrics=[make_rubric(good, short, weights=[1.0, 0.25]), make_rubric(broken, weights=[0.0])],
    )
    plan = plan_rubric(group)
    assert plan.weights == {"good": 1.0, "short": 0.25, "broken": 0.0}
    assert (plan.has_total, plan.together) == (False, False)
    assert read_rewards({"metrics": {"good": 1, "short": 0.5}, "reward": 9}, plan) == {
        "good": 1.0,
        "short": 0.5,
    }


@pytest.mark.parametrize(
    "rubric",
    [
        make_rubric(good, module="somewhere.else"),
        make_rubric(module="verifiers.rubrics.rubric_group", rubrics=[make_rubric(good), make_rubric(good)]),
    ],
    ids=["adds up in its own way", "two functions of one name"],
)
def test_a_sum_that_is_not_its_functions_is_one_component_and_they_are_metrics(rubric):
    plan = plan_rubric(rubric)
    assert plan.weights == {"reward": 1.0, "good": 0.0}
    assert read_rewards({"metrics": {"good": 1.0}, "reward": 0.75}, plan) == {"reward": 0.75, "good": 1.0}


async def test_a_function_that_raises_fails_the_rollout_whatever_the_rubric_makes_of_it():
    rubric = make_rubric(good, broken, broken_later)
    plan_rubric(rubric)
    plan_rubric(rubric)  # watched once
    with pytest.raises(RolloutFailure) as caught, raise_faults():
        await rubric.score_rollout([])
    assert caught.value.termination_reason == "reward_error"
    assert caught.value.message == "broken: ValueError: no answer in it; broken_later: KeyError: 'answer'"
    fine = make_rubric(good)
    plan_rubric(fine)
    with raise_faults():
        await fine.score_rollout([])


async def test_without_an_evaluation_dataset_a_share_is_held_out_by_prompt():
    environment = VerifiersEnvironment(make_inner(), held_out=0.3)
    train = await environment.create_dataset("train", Path())
    held = await environment.create_dataset("eval", Path())
    assert len(train) + len(held) == 20
    assert 0 < len(held) < 12
    assert all(split_share(example.payload) < 0.3 for example in held)
    assert not {example.id for example in train} & {example.id for example in held}
    assert [e.id for e in await environment.create_dataset("train", Path(), max_examples=3)] == [
        e.id for e in train[:3]
    ]
    assert environment.gold(train[0]) == train[0].payload["answer"]
    assert "example_id" not in train[0].payload


async def test_its_own_evaluation_dataset_is_used_whole_and_rows_that_repeat_count_once():
    inner = make_inner(eval_dataset=[1])
    rows = inner.get_dataset()
    inner.get_dataset = lambda: [*rows, *rows]
    environment = VerifiersEnvironment(inner, held_out=0.3)
    assert len(await environment.create_dataset("train", Path())) == 20
    assert len(await environment.create_dataset("eval", Path())) == 5


def test_the_hosts_sampling_goes_over_the_environments_own():
    environment = VerifiersEnvironment(make_inner(), held_out=0.3)
    assert environment._sampling() == {"n": 1, "temperature": 0.1, "extra_body": {"own": 1}}
    with request_defaults({"temperature": 0.7, "max_tokens": 5, "top_k": 3}):
        assert environment._sampling() == {
            "n": 1,
            "temperature": 0.7,
            "max_tokens": 5,
            "extra_body": {"own": 1, "top_k": 3},
        }


def test_messages_and_rows_are_plain_data():
    call = {"id": "c1", "name": "add", "arguments": "{}"}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    plain = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{}"}}],
    }
    assert plain_messages([message]) == [plain] == plain_messages([plain])
    assert plain_row({"prompt": "text", "info": '{"a": 1}', "example_id": 4, "answer": None}) == {
        "prompt": "text",
        "info": {"a": 1},
    }


@pytest.mark.parametrize(
    ("kinds", "reason"),
    [
        (("ToolCallError", "ToolError", "Error"), "tool_error"),
        (("SandboxError", "InfraError", "Error"), "sandbox_error"),
        (("TunnelError", "InfraError", "Error"), "harness_error"),
        (("InvalidModelResponseError", "ModelError", "Error"), "model_error"),
        (("Error",), "harness_error"),
    ],
)
def test_the_librarys_errors_end_a_rollout_by_kind(kinds, reason):
    cls = Exception
    for name in reversed(kinds):
        cls = type(name, (cls,), {})
    error = cls()
    error.__cause__ = OSError("gone")
    failure = _failure(error)
    assert failure.termination_reason == reason
    assert failure.message == f"{kinds[0]}: OSError: gone"


def test_what_is_not_installed_says_how_to_install_it():
    with pytest.raises(MissingError, match="no module never_heard_of") as caught:
        make_environment(VerifiersConfig(name="primeintellect/never-heard-of"))
    assert "--isolated --with PACKAGE" in str(caught.value.hint)


def test_a_module_without_load_environment_and_wrong_arguments_are_told(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "vf_plain.py").write_text("x = 1\n")
    (tmp_path / "vf_picky.py").write_text("def load_environment(size=1):\n    return size\n")
    with pytest.raises(ConfigError, match="vf_plain has no load_environment"):
        make_environment(VerifiersConfig(name="vf-plain"))
    with pytest.raises(ConfigError, match="unexpected keyword argument 'sise'") as caught:
        make_environment(VerifiersConfig(name="vf-picky", args={"sise": 2}))
    assert caught.value.hint == "args of its load_environment are size"
    assert "verifiers" not in sys.modules
