"""What of the public contract of `benchmax.envs.harbor` no other file here holds: forms, defaults, precedence."""

from __future__ import annotations

import inspect
import os
from pathlib import Path

import pytest

from benchmax.envs.harbor import (
    AgentConfig,
    BundledAgentSource,
    BundledHarborAgent,
    CustomSandboxCredentials,
    DatasetConfig,
    EnvironmentConfig,
    HarborDataset,
    HarborEnv,
    HarborTrialTemplate,
    VerifierConfig,
)
from benchmax.envs.harbor.dataset import count_eval
from benchmax.envs.harbor.diagnostics import find_model_controls
from benchmax.testing import trial_runner


def test_an_environments_options_are_keywords_with_these_defaults():
    parameters = inspect.signature(HarborEnv).parameters
    assert {parameter.kind for parameter in parameters.values()} == {inspect.Parameter.KEYWORD_ONLY}
    missing = inspect.Parameter.empty
    known = {
        "dataset": missing,
        "trial": missing,
        "sandbox_credentials": None,
        "eval_dataset": None,
        "eval_ratio": 0.1,
        "max_concurrent_trials": None,
        "requires_public_model_endpoint": True,
    }
    assert {name: parameters[name].default for name in known} == known
    others = set(parameters) - set(known)
    assert all(parameters[name].default is not missing for name in others)


def test_a_datasets_options_are_keywords_with_these_defaults():
    config, *options = inspect.signature(HarborDataset.create).parameters.values()
    assert config.name == "config" and {option.kind for option in options} == {inspect.Parameter.KEYWORD_ONLY}
    assert {option.name: option.default for option in options} == {
        "base_dir": inspect.Parameter.empty,
        "disable_verification": False,
        "max_examples": None,
        "split": None,
        "eval_ratio": None,
    }


def test_a_template_takes_its_configs_in_order_and_has_these_defaults():
    template = HarborTrialTemplate(AgentConfig(name="x"), EnvironmentConfig(), VerifierConfig())
    assert (template.trials_dir, template.timeout_multiplier) == (Path("trials"), 1.0)
    assert (template.artifacts, template.extra_instruction_paths) == ((), ())
    for name in ("agent", "verifier", "agent_setup", "environment_build"):
        assert getattr(template, f"{name}_timeout_multiplier") is None


@pytest.mark.parametrize("name", ["", "agent_", "verifier_", "agent_setup_", "environment_build_"])
def test_no_multiplier_is_zero(name):
    with pytest.raises(ValueError, match=f"{name}timeout_multiplier"):
        HarborTrialTemplate(agent=AgentConfig(name="x"), **{f"{name}timeout_multiplier": 0})


@pytest.mark.parametrize("kind", ["modal", "daytona"])
def test_a_service_with_keys_is_not_used_without_them(make_env, kind):
    with pytest.raises(ValueError, match=f"needs sandbox_credentials of {kind}, not of nobody"):
        make_env(environment=EnvironmentConfig(type=kind))


@pytest.mark.parametrize("reads_environment", [True, False])
async def test_a_groups_credentials_stand_in_the_environment_for_a_runner_that_reads_it(
    tmp_path, make_task, make_env, request_of, monkeypatch, reads_environment
):
    seen = []

    class Looking(trial_runner.ScriptedTrialRunner):
        uses_process_environment = reads_environment

        async def run(self, trial):
            seen.append((os.environ.get("CF_CONTRACT_KEY"), dict(trial.host_environment)))
            return await super().run(trial)

    monkeypatch.setattr(trial_runner, "make_runner", Looking)
    monkeypatch.delenv("CF_CONTRACT_KEY", raising=False)
    make_task()
    env = make_env(sandbox_credentials=CustomSandboxCredentials(values={"CF_CONTRACT_KEY": "sesame"}))
    example = (await env.create_dataset("train", tmp_path))[0]
    await env.run_group([request_of(example, "a"), request_of(example, "b")])
    assert seen == [("sesame" if reads_environment else None, {"CF_CONTRACT_KEY": "sesame"})] * 2
    assert "CF_CONTRACT_KEY" not in os.environ


async def test_an_eval_dataset_is_all_that_evaluation_sees_whatever_the_ratio(tmp_path, make_task, make_env):
    for name in ("a", "b"):
        make_task(name)
    make_task("held", under="other")
    env = make_env(eval_dataset=DatasetConfig(path="other"), eval_ratio=0.5)

    async def names(split):
        return sorted(example.payload["name"] for example in await env.create_dataset(split, tmp_path))

    assert (await names("train"), await names("eval")) == (["a", "b"], ["held"])


@pytest.mark.parametrize(
    ("size", "ratio", "count"),
    [
        *((0, 0.5, 0), (1, 0.5, 0), (10, 0, 0), (2, 0.01, 1), (2, 0.99, 1), (3, 0.1, 1)),
        *((10, 0.1, 1), (10, 0.11, 2), (100, 0.011, 2), (10, 0.999, 9)),
    ],
)
def test_so_many_tasks_are_held_out(size, ratio, count):
    assert count_eval(size, ratio) == count


async def test_a_downloads_content_must_be_what_the_manifest_says(tmp_path, make_task):
    make_task("one")
    row = '[[tasks]]\nname = "org/one"\ndigest = "sha256:' + "0" * 64 + '"\n'
    (tmp_path / "source" / "dataset.toml").write_text(row)
    with pytest.raises(ValueError, match="does not hold the content 000"):
        await HarborDataset.create(DatasetConfig(path="source"), base_dir=tmp_path)


async def test_a_budget_stop_that_the_agent_reports_names_the_end_before_the_exception_does(run_trial):
    outcome = await run_trial(
        rewards={"reward": 1.0},
        exception_type="NonZeroAgentExitCodeError",
        metadata={"termination_reason": "max_turns_exceeded"},
    )
    assert (outcome.termination_reason, outcome.rewards) == ("max_turns_exceeded", {})


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        *((name, 1, "trainer_owned_model_control") for name in ("top_k", "presence_penalty")),
        *((name, "x", "trainer_owned_model_control") for name in ("frequency_penalty", "stop")),
        *((name, 1, "unsupported_model_control") for name in ("top_logprobs", "best_of", "min_p")),
        ("logit_bias", {"1": 2}, "unsupported_model_control"),
        ("functions", [{}], "unsupported_model_control"),
    ],
)
def test_every_control_of_the_contract_is_diagnosed(name, value, code):
    assert [found.code for found in find_model_controls({name: value}, "k")] == [code]


def test_an_environment_diagnoses_its_agents_options_where_they_stand(make_env):
    env = make_env(agent=AgentConfig(name="x", kwargs={"llm_kwargs": {"max_tokens": 5, "seed": 1}}))
    assert [(found.severity, found.location) for found in env.validation_diagnostics()] == [
        ("warning", "trial.agent.kwargs.llm_kwargs.max_tokens"),
        ("error", "trial.agent.kwargs.llm_kwargs.seed"),
    ]


def test_a_bundled_agent_has_an_import_path():
    with pytest.raises(ValueError):
        BundledHarborAgent(AgentConfig(), BundledAgentSource.from_files({"agent.py": b"x"}))
