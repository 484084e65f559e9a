"""The sampling contract: who decides, what is reported, what is refused."""

from __future__ import annotations

import pytest

from castform.calls import Sampling
from castform.seeds import derive_seed
from castform_trainer.gateway.errors import ApiError
from castform_trainer.gateway.sampling import read_sampling, settle_sampling

OURS = Sampling(max_new_tokens=64, temperature=1.0, seed=7, stop=("S",))
GO = [{"role": "user", "content": "go"}]

CONTROLS = [
    {"tool_choice": "required"},
    {"tool_choice": {"type": "function", "function": {"name": "f"}}},
    {"logit_bias": {"5": 100}},
    {"presence_penalty": 0.1},
    {"frequency_penalty": -1},
    {"repetition_penalty": 1.1},
    {"response_format": {"type": "json_object"}},
    {"top_logprobs": 5},
    {"min_p": 0.05},
    {"guided_json": {}},
    {"functions": [{"name": "f"}]},
    {"best_of": 2},
    {"ignore_eos": True},
]


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("control", CONTROLS, ids=lambda c: next(iter(c)))
def test_what_would_make_logprobs_untrue_is_refused_by_name(control, training):
    with pytest.raises(ApiError) as caught:
        read_sampling(control, training=training)
    assert caught.value.code == "unsupported_model_control"
    assert caught.value.param in control
    assert ("logprobs untrue" in caught.value.message) is training


def test_neutral_values_of_refused_controls_are_fine():
    body = {
        "tool_choice": "auto",
        "logit_bias": {},
        "presence_penalty": 0.0,
        "repetition_penalty": 1.0,
        "response_format": {"type": "text"},
        "top_logprobs": None,
        "best_of": 1,
    }
    assert read_sampling(body, training=True).ignored == ()


@pytest.mark.parametrize(
    "wrong",
    [
        {"temperature": -1},
        {"temperature": "hot"},
        {"temperature": True},
        {"temperature": float("nan")},
        {"top_p": 0},
        {"top_p": 1.5},
        {"top_k": 1.5},
        {"n": 0},
        {"n": 1000},
        {"max_tokens": 0},
        {"max_completion_tokens": "many"},
        {"stop": [""]},
        {"stop": 5},
        {"seed": "x"},
    ],
    ids=str,
)
def test_a_wrong_value_is_named(wrong):
    (name,) = wrong
    with pytest.raises(ApiError, match=name) as caught:
        read_sampling(wrong, training=False)
    assert (caught.value.status, caught.value.code, caught.value.param) == (400, "invalid_parameter", name)


def test_in_training_the_sessions_values_win_and_every_override_is_reported():
    asked = read_sampling(
        {
            "temperature": 0.2,
            "top_p": 0.9,
            "top_k": 40,
            "seed": 1,
            "max_tokens": 4096,
            "stop": "T",
            "magic": 1,
            "user": "me",
        },
        training=True,
    )
    used, overrides = settle_sampling(asked, OURS, enforce=True)
    assert used == Sampling(max_new_tokens=64, temperature=1.0, seed=7, stop=("S", "T"))
    assert overrides == (
        "magic=1->ignored",
        "temperature=0.2->1",
        "top_p=0.9->1",
        "top_k=40->0",
        "max_tokens=4096->64",
        "seed=1->per call",
    )


def test_asking_for_what_is_in_force_anyway_is_no_override():
    asked = read_sampling({"temperature": 1, "top_p": 1.0, "top_k": -1, "max_tokens": 10}, training=True)
    used, overrides = settle_sampling(asked, OURS, enforce=True)
    assert overrides == () and used.max_new_tokens == 10


def test_in_evaluation_the_clients_values_win():
    asked = read_sampling({"temperature": 0.2, "max_completion_tokens": 4096}, training=False)
    used, overrides = settle_sampling(asked, OURS, enforce=False)
    assert (used.temperature, used.max_new_tokens, overrides) == (0.2, 4096, ())


async def test_every_call_and_choice_has_its_own_logged_seed(make_bench):
    bench = await make_bench()
    grant = await bench.open(sampling=Sampling(max_new_tokens=4, seed=11))
    await bench.chat(grant, {"messages": GO})
    await bench.chat(grant, {"messages": GO, "n": 2, "seed": 3})
    calls = await bench.calls()
    assert [c.sampling.seed for c in calls] == [derive_seed(11, i, j) for i, j in ((0, 0), (1, 0), (1, 1))]
    assert calls[1].overrides == ("seed=3->per call",)


async def test_the_same_session_seed_gives_the_same_replies(make_bench):
    bench = await make_bench()
    seen = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        grant = await bench.open(name, sampling=Sampling(max_new_tokens=24, seed=seed))
        await bench.chat(grant, {"messages": GO})
        seen.append((await bench.calls(name))[0].sampled_ids)
    assert seen[0] == seen[1] != seen[2]


async def test_a_reply_never_outgrows_the_context(make_bench):
    bench = await make_bench(["hello " * 50])
    grant = await bench.open(max_context_tokens=50)
    status, answer = await bench.chat(grant, {"messages": GO, "max_tokens": 400})
    assert status == 200
    (call,) = await bench.calls()
    assert call.prompt_tokens + call.completion_tokens == 50
    assert call.finish_reason == "length" and call.sampling.max_new_tokens == 50 - call.prompt_tokens
    assert answer["usage"]["total_tokens"] == 50


async def test_a_prompt_that_leaves_no_room_is_context_budget_exceeded(make_bench):
    bench = await make_bench(["hello"])
    grant = await bench.open(max_context_tokens=40)
    status, answer = await bench.chat(grant, {"messages": [{"role": "user", "content": "x" * 200}]})
    assert (status, answer["error"]["code"]) == (400, "context_budget_exceeded")
    assert await bench.calls() == []
