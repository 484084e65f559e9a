"""What a trial's result becomes, and what is refused before any trial."""

from __future__ import annotations

import asyncio
import json
import pickle
from dataclasses import dataclass

import pytest

from benchmax.envs import Example, RolloutFailure
from benchmax.envs.harbor import (
    AgentConfig,
    BundledAgentSource,
    BundledHarborAgent,
    DatasetConfig,
    DaytonaCredentials,
    EnvironmentConfig,
    HarborEnv,
    HarborTrialTemplate,
    ModalCredentials,
    VerifierConfig,
)
from benchmax.envs.harbor.runners import IN_PROCESS_RUNNER, OWN_RUNNER
from benchmax.testing.trial_runner import RUNNER

FAILED = {"rewards": {"reward": 1.0}, "exception_message": "it went wrong"}
MODAL = ModalCredentials(token_id="id", token_secret="secret")


async def test_a_verdict_becomes_the_rewards(run_trial):
    outcome = await run_trial(rewards={"reward": 0.5, "style": 1})
    assert outcome.rewards == {"reward": 0.5, "style": 1} and outcome.termination_reason == "finished"


@pytest.mark.parametrize(
    "name, reason",
    [
        ("AgentTimeoutError", "harness_timeout"),
        ("ContextLengthExceededError", "context_exceeded"),
        ("ContextWindowExceededError", "context_exceeded"),
        ("NonZeroAgentExitCodeError", "harness_error"),
        ("OutputLengthExceededError", "output_exceeded"),
        ("SandboxBuildFailedError", "sandbox_error"),
        ("VerifierTimeoutError", "verifier_timeout"),
        ("SomethingElse", "harness_error"),
        ("some.module.VerifierTimeoutError", "verifier_timeout"),
    ],
)
async def test_an_exception_ends_a_trial_without_rewards_whatever_the_verifier_said(run_trial, name, reason):
    outcome = await run_trial(exception_type=name, **FAILED)
    assert outcome.termination_reason == reason
    assert outcome.rewards == {}
    assert outcome.error == f"{name.rpartition('.')[2]}: it went wrong"


@pytest.mark.parametrize(
    "name, reason, kept",
    [
        ("AgentTimeoutError", "harness_timeout", True),
        ("NonZeroAgentExitCodeError", "harness_error", True),
        ("ContextWindowExceededError", "context_exceeded", True),
        ("VerifierTimeoutError", "verifier_timeout", False),
        ("SandboxBuildFailedError", "sandbox_error", False),
        ("SomethingElse", "harness_error", False),
    ],
)
async def test_graded_failures_of_the_agent_keep_their_reward_where_that_is_wanted(
    run_trial, make_env, name, reason, kept
):
    outcome = await run_trial(env=make_env(keep_graded_failures=True), exception_type=name, **FAILED)
    assert outcome.termination_reason == reason
    assert outcome.rewards == ({"reward": 1.0} if kept else {})
    assert outcome.error and name in outcome.error


@pytest.mark.parametrize("holder", ["{}", '{"harvey_metrics": {}}'])
@pytest.mark.parametrize(
    "reason", ["context_exceeded", "output_exceeded", "max_turns_exceeded", "tool_budget_exceeded"]
)
async def test_a_budget_stop_that_the_agent_reports_keeps_the_verdict(run_trial, reason, holder):
    metadata = json.loads(holder)
    (metadata["harvey_metrics"] if metadata else metadata)["termination_reason"] = reason
    outcome = await run_trial(rewards={"reward": 0.25}, metadata=metadata)
    assert outcome.termination_reason == reason and outcome.rewards == {"reward": 0.25}


async def test_a_reason_that_is_no_budget_stop_is_not_the_agents_to_report(run_trial):
    outcome = await run_trial(rewards={"reward": 1.0}, metadata={"termination_reason": "judge_error"})
    assert outcome.termination_reason == "finished"


@pytest.mark.parametrize("rewards", [None, {}])
async def test_a_verifier_that_says_nothing_is_an_error_and_no_zero(run_trial, rewards):
    outcome = await run_trial(rewards=rewards)
    assert outcome.termination_reason == "verifier_error" and outcome.rewards == {} and outcome.error


async def test_a_budget_stop_without_a_verdict_stays_a_budget_stop(run_trial):
    outcome = await run_trial(rewards=None, metadata={"termination_reason": "max_turns_exceeded"})
    assert outcome.termination_reason == "max_turns_exceeded" and outcome.rewards == {}


async def test_a_reward_that_is_no_number_is_loud_once_the_siblings_are_done(
    request_of, tmp_path, make_task, make_env
):
    make_task(rewards={"reward": "1"})
    env = make_env()
    example = (await env.create_dataset("train", tmp_path))[0]
    with pytest.raises(ValueError, match="reward 'reward' must be numeric"):
        await env.run_group([request_of(example, "a"), request_of(example, "b")])
    assert [trial.rollout_id for trial in env._runners.get().trials] == ["a", "b"]


DETAILS = {
    "reward": {"criteria": [{"name": "a", "weight": 1, "value": 1}, {"name": "b", "weight": 3, "value": 0.5}]}
}


async def test_rewardkit_details_become_partial_credit(run_trial):
    outcome = await run_trial(
        rewards={"reward": 0.0}, files={"verifier/reward-details.json": json.dumps(DETAILS)}
    )
    assert outcome.rewards == {"reward": 0.0, "partial_credit": 0.625}


@pytest.mark.parametrize("rewards", [{"other": 1.0}, {"reward": 1.0, "partial_credit": 0.1}])
async def test_partial_credit_is_added_only_beside_a_reward_without_one(run_trial, rewards):
    outcome = await run_trial(rewards=rewards, files={"verifier/reward-details.json": json.dumps(DETAILS)})
    assert outcome.rewards == rewards


@pytest.mark.parametrize("rollout_id", ["../escape", "a/b", ".hidden", "-x", "a b", "a\n"])
async def test_an_id_that_leads_elsewhere_is_refused_before_any_trial(
    request_of, tmp_path, make_task, make_env, rollout_id
):
    make_task()
    env = make_env()
    example = (await env.create_dataset("train", tmp_path))[0]
    with pytest.raises(ValueError, match="cannot name a trial's folder"):
        await env.run_group([request_of(example, rollout_id)])
    assert env._runners.get().trials == []


@dataclass(frozen=True)
class Headers:
    headers: dict[str, str]

    async def headers_for_request(self, context):
        return self.headers


@pytest.mark.parametrize("name", ["Authorization", "authorization"])
async def test_the_bearer_becomes_the_trials_key_however_its_header_is_spelt(
    request_of, tmp_path, make_task, make_env, name
):
    make_task()
    env = make_env()
    example = (await env.create_dataset("train", tmp_path))[0]
    trial = await env.make_trial(request_of(example, model_auth=Headers({name: "Bearer sesame"})))
    assert trial.api_key == "sesame" and "sesame" not in repr(trial)
    with pytest.raises(ValueError, match="Bearer"):
        await env.make_trial(request_of(example, model_auth=Headers({name: "Basic sesame"})))


async def test_the_real_harbor_gets_the_endpoint_in_the_agents_environment_and_nowhere_else(
    request_of, make_env, tmp_path
):
    env = make_env(
        agent=AgentConfig(name="terminus-2", env={"MINE": "1"}), verifier=VerifierConfig(env={"V": "1"})
    )
    trial = await env.make_trial(request_of(Example("x", {"path": str(tmp_path)}), model="qwen"))
    agent = trial.harbor_agent()
    assert agent.model_name == "openai/qwen"
    assert agent.env == {
        "MINE": "1",
        "OPENAI_API_KEY": "sesame",
        "OPENAI_BASE_URL": "http://127.0.0.1:1/v1",
        "OPENAI_API_BASE": "http://127.0.0.1:1/v1",
    }
    assert trial.template.verifier.env == {"V": "1"} and trial.template.agent_config.env == {"MINE": "1"}
    again = await env.make_trial(request_of(Example("x", {"path": str(tmp_path)}), model="openai/qwen"))
    assert again.harbor_agent().model_name == "openai/qwen"


async def test_no_two_trials_share_a_config_that_could_change(request_of, make_env, tmp_path):
    env = make_env(agent=AgentConfig(name="x", kwargs={"deep": {"list": [1]}}))
    one, two = [await env.make_trial(request_of(Example("x", {"path": "t"}), name)) for name in ("a", "b")]
    one.template.agent_config.kwargs["deep"]["list"].append(2)
    assert two.template.agent_config.kwargs == {"deep": {"list": [1]}}
    assert env.trial.agent_config.kwargs == {"deep": {"list": [1]}}


async def test_trials_run_at_most_so_many_at_a_time_over_all_groups(
    request_of, tmp_path, make_task, make_env
):
    for name in ("one", "two"):
        make_task(name)
    env = make_env(max_concurrent_trials=2, eval_ratio=0)
    examples = await env.create_dataset("train", tmp_path)
    groups = [[request_of(example, f"{n}-{i}") for i in range(4)] for n, example in enumerate(examples)]
    await asyncio.gather(*map(env.run_group, groups))
    runner = env._runners.get()
    assert len(runner.trials) == 8 and runner.most_running == 2


@pytest.mark.parametrize("keep, left", [("all", ["bad", "good"]), ("failed", ["bad"]), ("none", [])])
async def test_trial_folders_stay_as_long_as_is_wanted(request_of, tmp_path, make_task, make_env, keep, left):
    make_task("good", files={"x": ""}, rewards={"reward": 1})
    make_task("bad", files={"x": ""}, rewards={"reward": 1}, exception_type="AgentTimeoutError")
    env = make_env(keep_trials=keep, eval_ratio=0)
    for example in await env.create_dataset("train", tmp_path):
        await env.run_group([request_of(example, example.payload["name"])])
    assert sorted(path.name for path in (tmp_path / "trials").iterdir()) == left


@pytest.mark.parametrize("how", ["cancelled", "broken", "late"])
async def test_no_trial_folder_stays_of_one_that_came_to_no_result(
    request_of, tmp_path, make_task, make_env, monkeypatch, how
):
    make_task("one")
    env = make_env(keep_trials="none", trial_timeout_seconds=0.05 if how == "late" else None)
    example = (await env.create_dataset("train", tmp_path))[0]

    begun = asyncio.Event()

    async def run(trial):
        trial.trial_dir.mkdir(parents=True)
        begun.set()
        if how == "broken":
            raise OSError("gone")
        await asyncio.Event().wait()

    monkeypatch.setattr(env._runners.get(), "run", run)
    running = asyncio.ensure_future(env.run_rollout(request_of(example)))
    await begun.wait()
    if how == "cancelled":
        running.cancel()
    with pytest.raises((OSError, asyncio.CancelledError, RolloutFailure)):
        await running
    assert list((tmp_path / "trials").iterdir()) == []


async def test_the_runner_looks_at_the_tasks_before_anything_runs(tmp_path, make_task, make_env):
    make_task()
    env = make_env()
    dataset = await env.create_dataset("train", tmp_path)
    assert [(name, str(path)) for name, path in env._runners.get().checked] == [
        ("one", dataset[0].payload["path"])
    ]


def make(agent=None, environment=None, verifier=None, **options):
    template = HarborTrialTemplate(
        agent=agent or AgentConfig(name="nop"),
        environment=environment or EnvironmentConfig(),
        verifier=verifier or VerifierConfig(),
    )
    return HarborEnv(**{"dataset": DatasetConfig(path="t"), "trial": template, "runner": RUNNER, **options})


@pytest.mark.parametrize(
    "options, match",
    [
        ({"agent": AgentConfig(name="x", model_name="m")}, "model_name"),
        ({"verifier": VerifierConfig(disable=True)}, "verifier is disabled"),
        ({"eval_ratio": 1}, "eval_ratio"),
        ({"eval_ratio": -0.1}, "eval_ratio"),
        ({"eval_ratio": True}, "eval_ratio"),
        ({"agent": AgentConfig(name="x", n_concurrent=2)}, "n_concurrent"),
        ({"agent": AgentConfig(name="x", concurrency_group="g")}, "concurrency_group"),
        ({"environment": EnvironmentConfig(type="modal")}, "modal"),
        ({"environment": EnvironmentConfig(type="daytona"), "sandbox_credentials": MODAL}, "daytona"),
        ({"sandbox_credentials": MODAL}, "docker"),
        ({"max_concurrent_trials": 0}, "max_concurrent_trials"),
        ({"max_concurrent_trials": True}, "max_concurrent_trials"),
        ({"max_concurrent_trials": 1.0}, "max_concurrent_trials"),
        ({"keep_trials": "some"}, "keep_trials"),
    ],
)
def test_a_set_up_that_cannot_work_is_refused(options, match):
    with pytest.raises(ValueError, match=match):
        make(**options)


@pytest.mark.parametrize(
    "options",
    [
        {"dataset": "tasks"},
        {"trial": None},
        {"sandbox_credentials": {}},
        {"requires_public_model_endpoint": 1},
    ],
)
def test_values_of_other_types_are_refused(options):
    with pytest.raises(TypeError):
        make(**options)


def test_a_public_endpoint_is_needed_unless_the_author_says_otherwise():
    assert make().requires_public_model_endpoint
    assert not make(requires_public_model_endpoint=False).requires_public_model_endpoint


def test_modal_has_defaults_that_what_is_given_overrides():
    template = HarborTrialTemplate(
        agent=AgentConfig(name="x"),
        environment=EnvironmentConfig(type="modal", kwargs={"sandbox_timeout_secs": 60}),
        verifier=VerifierConfig(),
    )
    assert template.environment.kwargs == {
        "app_name": "harbor-benchmax",
        "sandbox_timeout_secs": 60,
        "sandbox_idle_timeout_secs": 1800,
    }


@pytest.mark.parametrize("value", [0, -1, True, "2", float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["timeout_multiplier", "verifier_timeout_multiplier"])
def test_a_multiplier_is_a_number_above_zero(name, value):
    with pytest.raises(ValueError, match=name):
        HarborTrialTemplate(
            agent=AgentConfig(), environment=EnvironmentConfig(), verifier=VerifierConfig(), **{name: value}
        )


SOURCE = BundledAgentSource.from_files({"agent.py": b"class Agent: pass\n"})


@pytest.mark.parametrize(
    "agent, environment, runner",
    [
        (AgentConfig(name="terminus-lite"), EnvironmentConfig(), OWN_RUNNER),
        (AgentConfig(name="x"), EnvironmentConfig(type="bubblewrap"), OWN_RUNNER),
        (AgentConfig(import_path="a.b:C"), EnvironmentConfig(), IN_PROCESS_RUNNER),
        (AgentConfig(name="x"), EnvironmentConfig(type="e2b"), IN_PROCESS_RUNNER),
        (
            BundledHarborAgent(AgentConfig(import_path="agent:Agent"), SOURCE),
            EnvironmentConfig(),
            IN_PROCESS_RUNNER,
        ),
    ],
    ids=["harness", "bubblewrap", "import-path", "cloud", "bundled"],
)
def test_the_real_harbor_runs_what_only_it_can(agent, environment, runner):
    assert make(agent=agent, environment=environment, runner=None).runner == runner


def test_a_daytona_environment_takes_its_own_credentials():
    credentials = DaytonaCredentials(api_key="key")
    env = make(environment=EnvironmentConfig(type="daytona"), sandbox_credentials=credentials)
    assert env.runner == RUNNER and "key" not in repr(credentials)


async def test_an_environment_pickles_with_nothing_of_a_running_loop(tmp_path, make_task, make_env):
    make_task()
    env = make_env()
    await env.create_dataset("train", tmp_path)
    copy = pickle.loads(pickle.dumps(env))
    assert copy.runner == RUNNER and len(await copy.create_dataset("train", tmp_path)) == 1
    await env.aclose()
    await env.aclose()
