"""A trial's outcome as a rollout's, and what the runner refuses before a box is started."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from benchmax.envs.harbor import (
    AgentConfig,
    ArtifactConfig,
    EnvironmentConfig,
    HarborTrial,
    HarborTrialTemplate,
    VerifierConfig,
)
from castform.errors import UsageError
from castform.harness.contract import HarnessError, HarnessResult
from castform.sandbox.contract import Capabilities
from castform.sandbox.errors import SandboxBuildError, SandboxStartError
from castform_harbor.reference_agents import NopHarness
from castform_harbor.rollout import (
    check_template,
    describe_failure,
    make_options,
    make_runner,
    override_resources,
    read_outcome,
    run_rollout,
)
from castform_harbor.task import load_task
from castform_harbor.trial_types import StepOutcome, TrialOutcome

TASKS = Path(__file__).parents[2] / "harbor" / "tasks"


def template_of(tmp_path=Path("trials"), *, agent=None, environment=None, verifier=None, **changes):
    return HarborTrialTemplate(
        agent=agent or AgentConfig(name="nop"),
        environment=environment or EnvironmentConfig(),
        verifier=verifier or VerifierConfig(),
        trials_dir=tmp_path,
        **changes,
    )


@pytest.mark.parametrize(
    "status, reason, exception, graded",
    [
        ("ok", None, None, False),
        ("agent_timeout", "harness_timeout", "AgentTimeoutError", True),
        ("agent_nonzero", "harness_error", "NonZeroAgentExitCodeError", True),
        ("context_exceeded", "context_exceeded", None, False),
        ("output_exceeded", "output_exceeded", None, False),
        ("max_turns", "max_turns_exceeded", None, False),
        ("verifier_error", "verifier_error", "TrialError", False),
        ("infra_error", "sandbox_error", "TrialError", False),
    ],
)
def test_every_status_has_its_reason(tmp_path, status, reason, exception, graded):
    agent = HarnessResult(status="finished", metadata={"turns": 3})
    steps = (StepOutcome(name=None, status=status, agent_result=agent),)
    fields = {"task_name": "t", "trial_name": "r", "trial_dir": tmp_path, "rewards": {"reward": 1.0}}
    found = read_outcome(TrialOutcome(status=status, error="why", steps=steps, **fields))
    assert (found.reason, found.exception_type, found.graded) == (reason, exception, graded)
    assert found.rewards == {"reward": 1.0} and found.metadata == {"turns": 3}


def test_a_budget_stop_that_the_agent_reports_comes_before_how_its_program_ended(tmp_path):
    agent = HarnessResult(status="nonzero_exit", metadata={"termination_reason": "context_exceeded"})
    steps = (StepOutcome(name=None, status="agent_nonzero", agent_result=agent),)
    fields = {"task_name": "t", "trial_name": "r", "trial_dir": tmp_path, "error": "why", "steps": steps}
    assert read_outcome(TrialOutcome(status="agent_nonzero", **fields)).reason == "context_exceeded"
    assert read_outcome(TrialOutcome(status="infra_error", **fields)).reason == "sandbox_error"


@pytest.mark.parametrize(
    "name, reason",
    [
        ("VerifierTimeoutError", "verifier_timeout"),
        ("SandboxBuildFailedError", "sandbox_error"),
        ("RewardFileNotFoundError", "verifier_error"),
    ],
)
@pytest.mark.parametrize("where", ["trial", "step"])
def test_the_exception_that_ended_a_trial_is_read_from_its_result(tmp_path, name, reason, where):
    info = {"exception_type": name}
    document = {"exception_info": info if where == "trial" else None, "step_results": None}
    if where == "step":
        timeout = {"exception_type": "AgentTimeoutError"}  # of a step that was graded
        document["step_results"] = [{"exception_info": timeout}, {"exception_info": info}]
    (tmp_path / "result.json").write_text(json.dumps(document))
    outcome = TrialOutcome(
        task_name="t", trial_name="r", trial_dir=tmp_path, status="verifier_error", error="why"
    )
    found = read_outcome(outcome)
    assert (found.exception_type, found.reason, found.rewards) == (name, reason, None)


def test_what_could_not_be_carried_through_is_no_word_about_the_agent(tmp_path):
    for error, reason in (
        (SandboxBuildError("no such image"), "sandbox_error"),
        (SandboxStartError("no room"), "sandbox_error"),
        (HarnessError("npm is not there"), "harness_error"),
    ):
        found = describe_failure(error, tmp_path)
        assert found.reason == reason and found.rewards is None and str(error) in found.exception_message


def test_a_template_is_the_trials_options(tmp_path):
    (tmp_path / "more.md").write_text("Be quick.")
    options = make_options(
        template_of(
            agent=AgentConfig(name="x", env={"A": "1"}, override_timeout_sec=5, max_timeout_sec=9),
            verifier=VerifierConfig(env={"V": "2"}, override_timeout_sec=7),
            timeout_multiplier=2.0,
            artifacts=("/a", ArtifactConfig(source="/b", destination="c", exclude=["*.o"])),
            extra_instruction_paths=(tmp_path / "more.md",),
            verification="fresh",
            network="none",
        )
    )
    assert (options.agent_timeout_seconds, options.max_agent_timeout_seconds) == (5, 9)
    assert (options.verifier_timeout_seconds, options.timeout_multiplier) == (7, 2.0)
    assert (options.agent_env, options.verifier_env) == ({"A": "1"}, {"V": "2"})
    assert [(item.source, item.destination, item.exclude) for item in options.artifacts] == [
        ("/a", None, ()),
        ("/b", "c", ("*.o",)),
    ]
    assert (options.extra_instructions, options.verifier, options.network) == (
        ("Be quick.",),
        "fresh",
        "none",
    )


def test_resources_that_are_overridden_win_over_the_tasks(tmp_path):
    task = load_task(TASKS / "workdir")
    asked = template_of(
        environment=EnvironmentConfig(override_cpus=0.5, override_memory_mb=64, env={"E": "1"})
    )
    changed = override_resources(task, asked).config.environment
    assert (changed.cpus, changed.memory_mb, changed.env["E"]) == (0.5, 64, "1")
    assert override_resources(task, template_of()) is task


@pytest.mark.parametrize(
    "changes, named",
    [
        ({"agent": AgentConfig(import_path="a:B")}, "import_path"),
        ({"agent": AgentConfig(name="x", resume_trajectory=True)}, "agent.resume_trajectory"),
        ({"environment": EnvironmentConfig(mounts=[])}, "environment.mounts"),
        ({"environment": EnvironmentConfig(delete=False)}, "environment.delete"),
        ({"verifier": VerifierConfig(include_logs=["*"])}, "verifier.include_logs"),
    ],
)
def test_a_field_that_would_mean_nothing_is_refused(changes, named):
    with pytest.raises(UsageError, match=named):
        check_template(template_of(**changes))


def test_tasks_are_looked_at_before_anything_runs(tmp_path):
    runner = make_runner()
    workdir, simple = ("a", TASKS / "workdir"), ("b", TASKS / "steps-simple")
    runner.check(template_of(), [workdir, simple])
    with pytest.raises(UsageError, match=r"1 of 2 tasks declare none: b"):
        runner.check(template_of(verification="fresh"), [("c", TASKS / "steps-all-shared"), simple])
    runner.check(template_of(verification="fresh", artifacts=("/work",)), [simple])
    with pytest.raises(UsageError, match="no harness called"):
        runner.check(template_of(agent=AgentConfig(name="terminus-9")), [])
    (tmp_path / "task.toml").write_text("")
    composed = tmp_path / "composed"
    shutil.copytree(TASKS / "workdir", composed)
    (composed / "environment" / "docker-compose.yaml").write_text("services: {main: {}}\n")
    with pytest.raises(
        UsageError, match=r"d: .* no whole Harbor task(.|\n)*e: its environment is a Docker Compose"
    ):
        runner.check(template_of(), [workdir, ("d", tmp_path), ("e", composed)])


async def test_tasks_that_these_boxes_cannot_run_are_named_as_their_author_did(tmp_path):
    runner = make_runner()
    folder = tmp_path / ("f" * 64)
    shutil.copytree(TASKS / "workdir", folder)
    loose = template_of(environment=EnvironmentConfig(type="process"))
    runner.check(loose, [("harbour/ledger", folder)])
    with pytest.raises(UsageError, match=r"\n  harbour/ledger: its fixed paths"):
        await runner.check_ready(loose)
    await runner.aclose()


class NoBoxes:
    """A provider whose engine is gone."""

    name = "none"

    async def check(self):
        networks = frozenset({"none", "allowlist", "public"})
        held = {"cpus": "enforced", "memory": "enforced", "pids": "enforced", "disk": "enforced"}
        return Capabilities(isolated=True, networks=networks, users=True, images=True, **held)

    async def start(self, request):
        raise SandboxStartError("the engine is gone")


async def test_what_this_machine_lacks_is_told_for_every_task_before_the_first_rollout(tmp_path, monkeypatch):
    monkeypatch.setattr("castform.sandbox.load_provider", lambda name, **options: NoBoxes())
    runner = make_runner()
    tasks = []
    for name, variable in [("a", "CASTFORM_TEST_UNSET"), ("b", "PATH"), ("c", "CASTFORM_TEST_UNSET")]:
        folder = tmp_path / name
        shutil.copytree(TASKS / "workdir", folder)
        with (folder / "task.toml").open("a") as file:
            file.write(f'\n[solution.env]\nKEY = "${{{variable}}}"\n')
        tasks.append((name, folder))
    template = template_of(agent=AgentConfig(name="oracle"))
    runner.check(template, tasks)
    with pytest.raises(
        UsageError, match=r"a: .*CASTFORM_TEST_UNSET(.|\n)*c: .*CASTFORM_TEST_UNSET"
    ) as caught:
        await runner.check_ready(template)
    assert "\n  b: " not in str(caught.value)


def trial_of(tmp_path):
    return HarborTrial(
        rollout_id="r-1",
        task=TASKS / "workdir",
        template=template_of(tmp_path / "trials"),
        base_url="http://127.0.0.1:1/v1",
        api_key="sesame",
        model="tiny",
    )


async def test_a_box_that_does_not_start_is_no_reward_and_a_second_try_starts_afresh(tmp_path):
    trial, task = trial_of(tmp_path), load_task(TASKS / "workdir")
    for _ in range(2):
        found = await run_rollout(trial, task=task, harness=NopHarness(), provider=NoBoxes())
        assert found.reason == "sandbox_error" and found.rewards is None
        assert "the engine is gone" in found.exception_message
        (trial.trial_dir / "left-over").write_text("of the try before")
    assert (trial.trial_dir / "result.json").is_file()


async def test_a_folder_of_a_trial_that_was_killed_as_it_began_is_no_hindrance(tmp_path):
    trial = trial_of(tmp_path)
    (trial.trial_dir / "agent").mkdir(parents=True)
    found = await run_rollout(
        trial, task=load_task(TASKS / "workdir"), harness=NopHarness(), provider=NoBoxes()
    )
    assert found.reason == "sandbox_error"


async def test_a_folder_that_is_no_trial_is_never_removed(tmp_path):
    trial = trial_of(tmp_path)
    trial.trial_dir.mkdir(parents=True)
    (trial.trial_dir / "thesis.tex").write_text("years of work")
    with pytest.raises(UsageError, match="is in the way"):
        await run_rollout(trial, task=load_task(TASKS / "workdir"), harness=NopHarness(), provider=NoBoxes())
    assert (trial.trial_dir / "thesis.tex").read_text() == "years of work"
