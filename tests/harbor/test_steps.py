"""Tasks of several steps: one box, what each step finds there, where it is verified, when it ends."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from fake_boxes import EVERYTHING, FakeProvider
from test_trial import Agent, result_of, run

from castform.errors import UsageError
from castform.harness.contract import HarnessResult
from castform_harbor.reference_agents import NopHarness, OracleHarness

TWO = '[[steps]]\nname = "one"\n[[steps]]\nname = "two"\n'


def check(path, reward="1"):
    return f"#!/bin/sh\n[ -e {path} ] && echo {reward} > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt\n"


@pytest.fixture
def write_steps(write_task):
    def write(toml=TWO, *, name="stepped", files=None):
        given = {
            "instruction.md": None,
            "tests/test.sh": None,
            "steps/one/instruction.md": "First.\n",
            "steps/one/solution/solve.sh": "#!/bin/sh\ntouch /work/one\n",
            "steps/one/tests/test.sh": check("/work/one"),
            "steps/two/instruction.md": "Second.\n",
            "steps/two/solution/solve.sh": "#!/bin/sh\ntouch /work/two\n",
            "steps/two/tests/test.sh": check("/work/two", "0.5"),
            **(files or {}),
        }
        return write_task(toml, name=name, files=given)

    return write


async def test_steps_share_a_box_and_their_rewards_are_averaged(write_steps, provider, tmp_path):
    outcome = await run(write_steps(), provider, tmp_path, OracleHarness())
    assert (outcome.status, outcome.rewards) == ("ok", {"reward": 0.75})
    assert [(step.name, step.rewards) for step in outcome.steps] == [
        ("one", {"reward": 1}),
        ("two", {"reward": 0.5}),
    ]
    assert len(provider.boxes) == 1
    found = result_of(outcome)
    assert [step["step_name"] for step in found["step_results"]] == ["one", "two"]
    assert found["agent_result"] is None
    for step in ("one", "two"):
        assert (outcome.trial_dir / "steps" / step / "verifier" / "reward.txt").exists()


async def test_each_agent_gets_its_own_instruction_limit_and_user(write_steps, provider, tmp_path):
    toml = '[agent]\ntimeout_sec = 10\nuser = "a"\n[[steps]]\nname = "one"\n[[steps]]\nname = "two"\n[steps.agent]\ntimeout_sec = 20'
    agent = Agent()
    await run(write_steps(toml), provider, tmp_path, agent)
    assert [(task.instruction, task.timeout_seconds, task.user) for task in agent.seen] == [
        ("First.\n", 10, "a"),
        ("Second.\n", 20, "a"),
    ]


async def test_a_missing_name_counts_as_zero_in_the_mean(write_steps, provider, tmp_path):
    files = {
        "steps/one/tests/test.sh": '#!/bin/sh\necho \'{"a": 1, "b": 1}\' > /logs/verifier/reward.json\n',
        "steps/two/tests/test.sh": "#!/bin/sh\necho '{\"a\": 0.5}' > /logs/verifier/reward.json\n",
    }
    outcome = await run(write_steps(files=files), provider, tmp_path)
    assert outcome.rewards == {"a": 0.75, "b": 0.5}


async def test_the_final_strategy_takes_the_last_step(write_steps, provider, tmp_path):
    toml = f'multi_step_reward_strategy = "final"\n{TWO}'
    outcome = await run(write_steps(toml), provider, tmp_path, OracleHarness())
    assert outcome.rewards == {"reward": 0.5}


@pytest.mark.parametrize("threshold", ["1.0", "{ reward = 0.5 }", "{ style = 0 }"])
async def test_a_step_that_misses_its_threshold_ends_the_task(write_steps, provider, tmp_path, threshold):
    toml = f'[[steps]]\nname = "one"\nmin_reward = {threshold}\n[[steps]]\nname = "two"'
    outcome = await run(write_steps(toml), provider, tmp_path)
    assert [step.name for step in outcome.steps] == ["one"]
    assert (outcome.status, outcome.rewards) == ("ok", {"reward": 0.0})


async def test_a_step_finds_its_files_and_its_setup_has_run(write_steps, provider, tmp_path):
    files = {
        "steps/two/workdir/given.txt": "given",
        "steps/two/workdir/setup.sh": "#!/bin/sh\ncp given.txt copied.txt\n",
        "steps/two/tests/test.sh": check("/work/copied.txt"),
    }
    outcome = await run(write_steps(files=files), provider, tmp_path)
    assert outcome.steps[1].rewards == {"reward": 1.0}


async def test_a_setup_that_fails_is_no_zero(write_steps, provider, tmp_path):
    files = {"steps/two/workdir/setup.sh": "#!/bin/sh\necho broken >&2\nexit 4\n"}
    outcome = await run(write_steps(files=files), provider, tmp_path, OracleHarness())
    assert (outcome.status, outcome.rewards) == ("infra_error", None)
    assert "exit code 4: broken" in outcome.error
    assert outcome.steps[0].rewards == {"reward": 1.0}
    assert result_of(outcome)["verifier_result"] is None


async def test_a_step_without_a_decision_leaves_the_task_without_a_reward(write_steps, provider, tmp_path):
    outcome = await run(write_steps(files={"steps/two/tests/test.sh": "#!/bin/sh\n"}), provider, tmp_path)
    assert (outcome.status, outcome.rewards) == ("verifier_error", None)


async def test_an_agent_that_runs_out_of_time_goes_on_to_the_next_step(write_steps, provider, tmp_path):
    agent = Agent("touch /work/one /work/two", HarnessResult(status="timeout"))
    outcome = await run(write_steps(), provider, tmp_path, agent)
    assert (outcome.status, outcome.rewards) == ("agent_timeout", {"reward": 0.75})
    assert len(agent.seen) == 2


async def test_no_step_sees_the_tests_of_an_earlier_one(write_steps, provider, tmp_path):
    agent = Agent(
        '[ ! -e /tests ] && [ -z "$(find /logs/verifier /logs/agent -type f)" ] && touch /work/clean || rm -f /work/clean'
    )
    files = {"steps/two/tests/test.sh": check("/work/clean")}
    outcome = await run(write_steps(files=files), provider, tmp_path, agent)
    assert outcome.steps[1].rewards == {"reward": 1.0}


async def test_tests_of_the_task_lie_under_those_of_the_step(write_steps, provider, tmp_path):
    files = {
        "tests/test.sh": "#!/bin/sh\ncat /tests/value > /logs/verifier/reward.txt\n",
        "tests/value": "0.25",
        "steps/one/tests/test.sh": None,
        "steps/one/tests/value": "0.75",
        "steps/two/tests/test.sh": None,
    }
    outcome = await run(write_steps(files=files), provider, tmp_path)
    assert [step.rewards for step in outcome.steps] == [{"reward": 0.75}, {"reward": 0.25}]


async def test_verifiers_of_both_kinds_in_one_task(write_steps, provider, tmp_path):
    toml = (
        'artifacts = ["/work/two"]\n[[steps]]\nname = "one"\n[steps.verifier]\nenvironment_mode = "separate"\n'
        '[[steps]]\nname = "two"\n'
    )
    files = {"steps/one/tests/test.sh": check("/work/one")}
    outcome = await run(write_steps(toml, files=files), provider, tmp_path, OracleHarness())
    assert [(step.verifier, step.rewards) for step in outcome.steps] == [
        ("separate", {"reward": 0.0}),  # /work/one is no artifact
        ("shared", {"reward": 0.5}),
    ]
    assert len(provider.boxes) == 2
    assert provider.boxes[0].kinds().count("close") == 1


async def test_steps_are_refused_what_their_task_says_of_the_verifiers_box(write_steps, tmp_path):
    provider = FakeProvider(tmp_path / "closed", replace(EVERYTHING, networks=frozenset({"none"})))
    folder = write_steps(f'[verifier.environment]\nnetwork_mode = "public"\n{TWO}')
    with pytest.raises(UsageError, match="network mode 'public'"):
        await run(folder, provider, tmp_path)
    assert provider.boxes == []


async def test_artifacts_are_kept_by_step(write_steps, provider, tmp_path):
    toml = '[[steps]]\nname = "one"\nartifacts = ["/work/one"]\n[[steps]]\nname = "two"\n'
    outcome = await run(write_steps(toml), provider, tmp_path, OracleHarness())
    manifests = [
        json.loads((outcome.trial_dir / "steps" / step / "artifacts" / "manifest.json").read_text())
        for step in ("one", "two")
    ]
    assert [[entry["source"] for entry in manifest] for manifest in manifests] == [
        ["/logs/artifacts", "/work/one"],
        ["/logs/artifacts"],
    ]


async def test_a_task_wide_oracle_solves_steps_without_a_solution_of_their_own(
    write_steps, provider, tmp_path
):
    files = {
        "solution/solve.sh": "#!/bin/sh\ntouch /work/one /work/two\n",
        "steps/one/solution/solve.sh": None,
        "steps/two/solution/solve.sh": None,
    }
    assert (await run(write_steps(files=files), provider, tmp_path, OracleHarness())).reward == 0.75
    files["solution/solve.sh"] = None
    unsolved = write_steps(name="none", files=files)
    with pytest.raises(UsageError, match="for the oracle to run in one, two"):
        await run(unsolved, provider, tmp_path, OracleHarness(), name="n")
    assert (await run(unsolved, provider, tmp_path, NopHarness(), name="m")).reward == 0
