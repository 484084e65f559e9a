"""Terms: what a reward function is called with, where it runs, and what its defects cost."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from benchmax.envs import RolloutFailure
from castform.compose.terms import RewardTerm, Scored, read_signature, score_terms

MESSAGES = [
    {"role": "assistant", "content": "", "tool_calls": [{"id": "1"}]},
    {"role": "tool", "content": "4"},
    {"role": "assistant", "content": " four "},
]
FIELDS = {
    "ground_truth": "4",
    "answer": "4",
    "hint": "even",
    "prompt_messages": [{"role": "user", "content": "2+2"}],
}


def scored(**fields):
    return Scored(rollout_id="r", completion=MESSAGES, question="2+2", fields={**FIELDS, **fields})


def term(function, name="t", weight=1.0, args=None, fields=None):
    return RewardTerm(
        name=name,
        weight=weight,
        function=function,
        constants=args or {},
        **read_signature(function, args or {}, fields or {}),
    )


def score(*terms, timeout_seconds=None, **fields):
    return asyncio.run(score_terms(terms, scored(**fields), timeout_seconds=timeout_seconds))


def test_a_text_is_given_where_the_first_parameter_is_annotated_str_else_the_messages():
    seen = {}

    def of_text(text: str, ground_truth):
        seen["text"] = (text, ground_truth)
        return 1

    def of_messages(messages: list, *, hint="odd", other=3):
        seen["messages"] = (messages, hint, other)
        return 0.5

    assert score(term(of_text, "a"), term(of_messages, "b")) == {"a": 1, "b": 0.5}
    assert seen == {"text": ("four", "4"), "messages": (MESSAGES, "even", 3)}


def test_constants_and_mapped_fields_fill_parameters_and_the_rest_goes_to_double_stars():
    seen = []

    def reward(completion, truth, scale, **others):
        seen.append((truth, scale, others))
        return scale

    made = term(reward, args={"scale": 0.25}, fields={"truth": "answer"})
    assert made.required == {"truth": "answer"}
    assert score(made) == {"t": 0.25}
    assert seen == [("4", 0.25, {"ground_truth": "4", "answer": "4", "hint": "even"})]


def test_a_field_that_is_called_as_the_completion_or_as_our_own_names_takes_nothing_over():
    def reward(function, self=1, scored=2):
        return float(isinstance(function, list)) + self + scored

    assert score(term(reward), function="x", self=10, scored=20) == {"t": 31.0}


@pytest.mark.parametrize(
    ("function", "args", "fields", "words"),
    [
        (lambda: 1, {}, {}, "takes no completion"),
        (lambda c, /, x: 1, {"y": 1}, {}, "args.y: the function has no such parameter; it has x"),
        (lambda c: 1, {}, {"y": "z"}, "fields.y: the function has no such parameter; it has none"),
        (lambda c, x: 1, {"c": 1}, {}, "args.c: 'c' is the completion, which castform gives"),
        (lambda c, x: 1, {"x": 1}, {"x": "a"}, "'x' is in args and in fields"),
        (lambda c, x, /: 1, {}, {}, "parameter 'x' cannot be given by name"),
    ],
)
def test_a_mapping_that_does_not_fit_the_function_says_which_parameters_it_has(function, args, fields, words):
    with pytest.raises(ValueError, match=words):
        read_signature(function, args, fields)


def test_parameters_with_a_default_are_optional_unless_a_field_is_named_for_them():
    def reward(completion, a, *, b=1, c=2):
        return a + b + c

    found = read_signature(reward, {}, {"c": "see"})
    assert (found["required"], found["optional"]) == ({"a": "a", "c": "see"}, {"b": "b"})
    assert found["takes_rest"] is False and found["reads_text"] is False


def text_by_a_name(text: str) -> float:
    return 1.0 if text == "four" else 0.0


def hints_for_a_checker(text: str, other: OnlyForACheckerToSee = None) -> float:  # noqa: F821
    return 1.0 if text == "four" else 0.0


@pytest.mark.parametrize("function", [text_by_a_name, hints_for_a_checker])
def test_annotations_as_strings_are_understood(function):
    assert score(term(function)) == {"t": 1.0}


async def test_a_plain_function_that_blocks_does_not_hold_the_event_loop():
    loop, running, release = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

    def blocking(completion):
        loop.call_soon_threadsafe(running.set)
        return float(release.wait(30))

    work = asyncio.create_task(score_terms([term(blocking)], scored(), timeout_seconds=30))
    await running.wait()
    release.set()  # only a free event loop gets here
    assert await work == {"t": 1.0}


async def test_an_async_function_runs_on_the_loop_and_terms_run_side_by_side():
    both = asyncio.Barrier(2)
    threads = []

    async def waits(completion):
        threads.append(threading.current_thread())
        await both.wait()
        return 1

    terms = [term(waits, "a"), term(waits, "b")]
    assert await score_terms(terms, scored(), timeout_seconds=30) == {"a": 1, "b": 1}
    assert set(threads) == {threading.current_thread()}


def raises(completion):
    raise KeyError("x")


def exits(completion):
    raise SystemExit(3)


async def fails(completion):
    raise RolloutFailure("sandbox_error", "gone")


def hangs(completion, *, event: Any = threading.Event()):
    event.wait(30)


async def at_once(completion):
    return 1


BROKEN = [
    (raises, "reward_error", "t: KeyError: 'x'"),
    (exits, "reward_error", "t: SystemExit: 3"),
    (fails, "sandbox_error", "t: gone"),
    (lambda c: float("nan"), "reward_error", "reward 't' must be finite, not nan"),
    (lambda c: float("inf"), "reward_error", "reward 't' must be finite, not inf"),
    (lambda c: "1", "reward_error", "reward 't' must be numeric, not str"),
    (lambda c: None, "reward_error", "reward 't' must be numeric, not NoneType"),
    (lambda c: {"recall": 1}, "reward_error", "reward 't' must be numeric, not dict"),
    (lambda c: -1.1e30, "reward_error", "t is -1.1e+30, beyond 1e+30"),
]


@pytest.mark.parametrize(("function", "reason", "message"), BROKEN)
def test_a_term_with_a_weight_that_gives_no_number_fails_the_rollout(function, reason, message):
    with pytest.raises(RolloutFailure) as caught:
        score(term(lambda c: 1, "fine"), term(function, weight=-0.5))
    assert (caught.value.termination_reason, caught.value.message) == (reason, message)


@pytest.mark.parametrize("function", [function for function, _, _ in BROKEN])
def test_a_metric_that_gives_no_number_is_left_out_and_the_rest_stands(function, caplog):
    assert score(term(function, weight=0.0), term(lambda c: 1, "fine")) == {"fine": 1}
    assert "metric left out of rollout r" in caplog.text


def test_what_takes_too_long_is_a_verifier_timeout_or_a_metric_less():
    with pytest.raises(RolloutFailure) as caught:
        score(term(hangs), timeout_seconds=0.01)
    assert caught.value.termination_reason == "verifier_timeout"
    assert caught.value.message == "t took longer than 0.01 s"
    assert score(term(hangs, weight=0), term(at_once, "fine"), timeout_seconds=0.01) == {"fine": 1}


def test_a_truth_value_counts_as_one_or_zero_and_the_border_of_numbers_is_in():
    assert score(term(lambda c: True, "a"), term(lambda c: False, "b"), term(lambda c: 1e30, "c")) == {
        "a": 1.0,
        "b": 0.0,
        "c": 1e30,
    }


async def cancels_itself(completion):
    raise asyncio.CancelledError


async def test_a_reward_that_cancels_itself_is_its_own_fault_and_cancelling_from_outside_still_works():
    metric = term(cancels_itself, weight=0)
    asked = scored()
    assert await score_terms([term(lambda c: 1.0, "ok"), metric], asked, timeout_seconds=5) == {"ok": 1.0}
    with pytest.raises(RolloutFailure, match="t: it cancelled itself") as raised:
        await score_terms([term(cancels_itself)], asked, timeout_seconds=5)
    assert raised.value.termination_reason == "reward_error"

    begun = asyncio.Event()

    async def waits(completion):
        begun.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(score_terms([term(waits, weight=0)], asked, timeout_seconds=60))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
