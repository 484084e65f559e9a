"""The group driver: outcomes become rollouts, faults become reasons, sessions always end."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from environments import Bare, Sums, finished, make_example

from benchmax.envs import RolloutAttempt, RolloutFailure
from castform.calls import Sampling
from castform.endpoint import SessionGrant, SessionSpec
from castform.remote_endpoint import RemoteEndpoint
from castform.rollouts import run_group, score_rewards
from castform.scripted_endpoint import ScriptedEndpoint
from castform.seeds import derive_seed


class Recorder:
    """An endpoint without a server that keeps what happened to its sessions."""

    model = "none"

    def __init__(self, fail_at: int | None = None) -> None:
        self.opened: list[SessionSpec] = []
        self.closed: list[str] = []
        self.fail_at = fail_at

    async def open_session(self, spec):
        if len(self.opened) == self.fail_at:
            raise ConnectionError("no server")
        self.opened.append(spec)
        return SessionGrant(base_url="http://127.0.0.1:9/v1", api_key="k", model="none")

    async def collect(self, session_id):
        return ()

    async def close_session(self, session_id):
        self.closed.append(session_id)

    async def aclose(self):
        return None


async def run(environment, endpoint=None, **changes):
    options = {
        "endpoint": endpoint or Recorder(),
        "split": "train",
        "group_id": "g",
        "size": 2,
        "sampling": Sampling(temperature=0.5, max_new_tokens=7),
        "seed": 11,
        "weights": {},
        "timeout_seconds": 30.0,
    }
    return await run_group(environment, make_example(3), **{**options, **changes})


async def test_each_sibling_has_its_own_session_and_seed():
    endpoint = Recorder()
    group = await run(
        Bare(lambda request: finished(request, a=1.0)), endpoint, version=4, max_context_tokens=99
    )
    assert [spec.session_id for spec in endpoint.opened] == ["g-0", "g-1"] == endpoint.closed
    assert [spec.sampling.seed for spec in endpoint.opened] == [derive_seed(11, 0), derive_seed(11, 1)]
    assert {
        (s.version, s.max_context_tokens, s.sampling.temperature, s.enforce_sampling) for s in endpoint.opened
    } == {(4, 99, 0.5, True)}
    assert [(r.rollout_id, r.sample, r.seed, r.score) for r in group.rollouts] == [
        ("g-0", 0, derive_seed(11, 0), 1.0),
        ("g-1", 1, derive_seed(11, 1), 1.0),
    ]


async def test_transcript_and_calls_come_back_with_the_rewards():
    endpoint = ScriptedEndpoint(lambda request: "6" if request.session_id == "g-0" else "7")
    group = await run(Sums(), endpoint)
    await endpoint.aclose()
    right, wrong = group.rollouts
    assert (right.rewards, right.score, wrong.score) == ({"correct": 1.0}, 1.0, 0.0)
    assert [m["content"] for m in right.messages] == ["What is 3 + 3?", "6"]
    assert [call.reply["content"] for call in right.calls] == ["6"]
    assert right.calls[0].session_id == "g-0"


async def test_calls_are_observed_where_the_endpoint_keeps_none():
    scripted = ScriptedEndpoint(lambda request: "6")
    grant = scripted.add_session("s")
    endpoint = RemoteEndpoint(grant.base_url, grant.api_key, "some-model", temperature=0.25, max_tokens=5)
    group = await run(Sums(), endpoint)
    bodies = scripted.requests("s")
    await scripted.aclose()
    assert {(b["temperature"], b["max_tokens"], b["model"]) for b in bodies} == {(0.25, 5, "some-model")}
    for rollout in group.rollouts:
        [call] = rollout.calls
        assert call.reply["content"] == "6"
        assert (call.sampled_ids, call.prompt_tokens, call.completion_tokens) == (None, 5, 1)
        assert call.session_id == rollout.rollout_id


@pytest.mark.parametrize("reason", ["model_error", "sandbox_error"])
async def test_a_failed_rollout_has_a_reason_and_no_number(reason):
    def attempt(request):
        if request.rollout_id == "g-0":
            raise RolloutFailure(reason, "it broke")
        return finished(request, a=0.0)

    failed, scored = (await run(Bare(attempt))).rollouts
    assert (failed.score, failed.rewards, failed.termination_reason, failed.error) == (
        None,
        {},
        reason,
        "it broke",
    )
    assert (scored.score, scored.rewards) == (0.0, {"a": 0.0})


async def test_zero_rewards_of_a_failed_attempt_are_not_a_score():
    def attempt(request):
        return RolloutAttempt(
            rollout_id=request.rollout_id, termination_reason="harness_error", rewards={"a": 0.0}
        )

    for rollout in (await run(Bare(attempt))).rollouts:
        assert (rollout.score, rollout.rewards, rollout.termination_reason) == (None, {}, "harness_error")


async def test_an_exception_in_the_environment_fails_the_group_with_its_cause():
    def attempt(request):
        raise KeyError("answer")

    endpoint = Recorder()
    group = await run(Bare(attempt), endpoint)
    assert {(r.score, r.termination_reason, r.error) for r in group.rollouts} == {
        (None, "environment_error", "KeyError: 'answer'")
    }
    assert endpoint.closed == ["g-0", "g-1"]


async def test_outcomes_that_are_none_fail_the_group():
    class Liar(Bare):
        async def run_group(self, requests):
            return {"g-0": None, "g-1": 1.0}

    class Loser(Bare):
        async def run_group(self, requests):
            return {}

    for kind in (Liar, Loser):
        group = await run(kind(finished))
        assert {r.termination_reason for r in group.rollouts} == {"environment_error"}
        assert {r.score for r in group.rollouts} == {None}


async def test_a_group_that_hangs_is_cancelled_and_counted(skip_seconds):
    both, ended = asyncio.Barrier(2), []

    async def attempt(request):
        try:
            await both.wait()
            skip_seconds(61)
            await asyncio.Event().wait()
        finally:
            ended.append(request.rollout_id)

    endpoint = Recorder()
    group = await run(Bare(attempt), endpoint, timeout_seconds=60.5)
    assert {(r.termination_reason, r.score) for r in group.rollouts} == {("rollout_timeout", None)}
    assert "after 60.5 s" in group.rollouts[0].error
    assert sorted(ended) == endpoint.closed == ["g-0", "g-1"]


async def test_a_timeout_keeps_the_transcript_of_what_had_settled(skip_seconds):
    class HangsInGroupScoring(Sums):
        async def compute_group_rewards(self, rollouts):
            skip_seconds(61)
            await asyncio.Event().wait()

    endpoint = ScriptedEndpoint(lambda request: "6")
    group = await run(HangsInGroupScoring(), endpoint, timeout_seconds=60.0)
    await endpoint.aclose()
    assert {r.termination_reason for r in group.rollouts} == {"rollout_timeout"}
    assert {r.messages[-1]["content"] for r in group.rollouts} == {"6"}


async def test_code_that_ignores_cancellation_is_left_behind(monkeypatch):
    monkeypatch.setattr("castform.rollouts.CANCEL_GRACE_SECONDS", 0.05)
    release = asyncio.Event()

    class Stubborn(Bare):
        async def run_group(self, requests):
            while not release.is_set():
                with contextlib.suppress(asyncio.CancelledError):
                    await release.wait()
            raise RuntimeError("late")

    endpoint = Recorder()
    group = await run(Stubborn(finished), endpoint, timeout_seconds=0.05)
    assert {r.termination_reason for r in group.rollouts} == {"rollout_timeout"}
    assert endpoint.closed == ["g-0", "g-1"]
    release.set()


async def test_cancelling_a_group_ends_its_rollouts_and_sessions():
    started, ended = asyncio.Event(), []

    async def attempt(request):
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(request.rollout_id)

    endpoint = Recorder()
    task = asyncio.create_task(run(Bare(attempt), endpoint))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert sorted(ended) == endpoint.closed == ["g-0", "g-1"]


async def test_an_endpoint_that_fails_is_raised_after_its_open_sessions_are_closed():
    endpoint = Recorder(fail_at=1)
    with pytest.raises(ConnectionError, match="no server"):
        await run(Bare(finished), endpoint)
    assert endpoint.closed == ["g-0"]


async def test_a_score_is_the_weighted_sum():
    assert score_rewards({"a": 1.0, "b": 0.5}, {"b": 4.0}) == 3.0
    assert score_rewards({}, {}) is None
    assert score_rewards({"a": 1e308, "b": 1e308}, {}) is None
    assert score_rewards({"a": 1e30}, {}) == 1e30
    assert score_rewards({"a": -1e30}, {}) == -1e30
    assert score_rewards({"a": 1.01e30}, {}) is None
    assert score_rewards({"a": 1.01e30}, {"a": 0.1}) is None
    assert score_rewards({"a": 1.01e30, "b": -1.01e30}, {}) is None
    assert score_rewards({"a": 9e29, "b": 9e29}, {}) is None
    assert score_rewards({"a": float("nan")}, {}) is None
    group = await run(
        Bare(lambda request: finished(request, a=1e308, b=1e308)),
    )
    assert {(r.score, r.termination_reason) for r in group.rollouts} == {(None, "reward_error")}


async def test_a_component_of_weight_0_takes_no_part_whatever_it_is():
    assert score_rewards({"a": 1.0, "b": 2e30}, {"b": 0.0}) == 1.0
    assert score_rewards({"a": 1.0, "b": float("nan")}, {"b": 0}) == 1.0
    assert score_rewards({"a": 1.0, "b": float("-inf")}, {"b": -0.0}) == 1.0
    assert score_rewards({"a": 3.0}, {"a": 0.0}) == 0.0
    environment = Bare(lambda request: finished(request, a=1.0, b=2e30, c=0.5))
    environment.reward_weights = {"b": 0.0, "c": 4.0}
    group = await run(environment)
    assert {r.score for r in group.rollouts} == {3.0}
    assert {tuple(r.rewards) for r in group.rollouts} == {("a", "c")}
    group = await run(environment, weights={"c": 0.0})
    assert {r.score for r in group.rollouts} == {1.0}
    group = await run(environment, weights={"b": 1.0})
    assert {(r.score, r.termination_reason) for r in group.rollouts} == {(None, "reward_error")}


async def test_group_rewards_reach_the_score():
    def group(rollouts):
        return {rollout.rollout_id: {"rank": float(place)} for place, rollout in enumerate(rollouts)}

    result = await run(Bare(lambda request: finished(request, a=1.0), group), weights={"rank": 0.5})
    assert [r.score for r in result.rollouts] == [1.0, 1.5]


async def test_observed_calls_show_each_request_as_it_was_sent():
    from test_scripted_endpoint import Adder

    from castform.testing import Reply, ToolUse

    def script(request):
        if len(request.messages) > 1:
            return "6"
        return Reply(tool_calls=[ToolUse(name="add", arguments={"a": 3, "b": 3})])

    scripted = ScriptedEndpoint(script)
    grant = scripted.add_session("s")
    group = await run(Adder(), RemoteEndpoint(grant.base_url, grant.api_key, "m"), size=1)
    await scripted.aclose()
    assert [len(call.messages) for call in group.rollouts[0].calls] == [1, 3]
    assert [call.index for call in group.rollouts[0].calls] == [0, 1]
