"""The life of a trial, with real commands in boxes that isolate nothing."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import socket
import tempfile
from dataclasses import dataclass, field, replace

import aiohttp
import pytest
from fake_boxes import EVERYTHING, FakeProvider

from castform.errors import UsageError
from castform.harness.contract import HarnessError, HarnessResult
from castform.sandbox.contract import Limits, ModelEndpoint
from castform.sandbox.errors import ExecTimeoutError, SandboxBuildError, SandboxGoneError, SandboxStartError
from castform.sandbox.relay import ModelRelay
from castform_harbor.output import TrialLog
from castform_harbor.reference_agents import NopHarness, OracleHarness
from castform_harbor.support import allows_fresh_verifier, find_unsupported
from castform_harbor.task import load_task
from castform_harbor.task_config import Artifact
from castform_harbor.trial import run_trial
from castform_harbor.trial_types import TrialOptions

CHECKING = "#!/bin/sh\n[ -e /work/done ] && echo 1 > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt\n"
SOLVING = {"solution/solve.sh": "#!/bin/sh\ntouch /work/done\n", "tests/test.sh": CHECKING}


@dataclass
class Agent:
    """An agent of a test's own: runs a command in the box, then ends as it is told to."""

    command: str = "true"
    result: HarnessResult = field(default_factory=lambda: HarnessResult(status="finished"))
    failure: BaseException | None = None
    setup_failure: BaseException | None = None
    name: str = "scripted"
    version: str | None = None
    seen: list = field(default_factory=list)

    async def setup(self, sandbox):
        if self.setup_failure is not None:
            raise self.setup_failure

    async def run(self, task, sandbox, endpoint):
        self.seen.append(task)
        await sandbox.exec(["sh", "-c", self.command], user=task.user)
        if self.failure is not None:
            raise self.failure
        return self.result


def run(folder, provider, tmp_path, harness=None, *, name="t", **options):
    return run_trial(
        load_task(folder),
        harness=harness or NopHarness(),
        provider=provider,
        trials_dir=tmp_path / "trials",
        trial_name=name,
        options=TrialOptions(host_env={}, **options),
    )


def result_of(outcome):
    return json.loads((outcome.trial_dir / "result.json").read_text())


async def test_the_oracle_gets_one_and_nop_gets_nothing(write_task, provider, tmp_path):
    folder = write_task(files=SOLVING)
    solved = await run(folder, provider, tmp_path, OracleHarness())
    assert (solved.status, solved.rewards, solved.reward) == ("ok", {"reward": 1.0}, 1.0)
    idle = await run(folder, provider, tmp_path, name="u")
    assert (idle.status, idle.rewards) == ("ok", {"reward": 0.0})
    assert all(box.closed for box in provider.boxes)


async def test_phases_come_in_harbors_order(write_task, provider, tmp_path):
    await run(write_task(files=SOLVING), provider, tmp_path, OracleHarness())
    calls = [
        what if kind in ("upload", "download") else kind
        for kind, what in provider.boxes[0].calls
        if kind != "exec"
    ]
    assert calls == [
        "/solution",
        "/logs/agent",
        "/logs/artifacts",
        "end_processes",
        "/logs/verifier",
        "/tests",
        "/logs/verifier",
        "close",
    ]


async def test_a_box_is_asked_for_as_the_task_says(write_task, provider, tmp_path):
    folder = write_task(
        "[environment]\nbuild_timeout_sec = 50\ncpus = 2.0\nstorage_mb = 300\nworkdir = '/work/here'\n"
        'network_mode = "no-network"\nenv = { A = "1", B = "${NAME:-b}" }'
    )
    await run(
        folder, provider, tmp_path, timeout_multiplier=2.0, limits=Limits(memory_mb=700, pids=None), name="x"
    )
    request = provider.boxes[0].request
    assert request.limits == Limits(cpus=2.0, memory_mb=700, disk_mb=300, pids=None)
    assert (request.workdir, request.env) == ("/work/here", {"A": "1", "B": "b"})
    assert (request.network.mode, request.keep_entrypoint, request.start_timeout_seconds) == (
        "none",
        True,
        100.0,
    )


async def test_the_agent_is_told_what_the_task_says(write_task, provider, tmp_path):
    folder = write_task(
        '[agent]\ntimeout_sec = 10\nuser = "worker"\n[environment]\nskills_dir = "/skills"\n'
        '[[environment.mcp_servers]]\nname = "m"\nurl = "http://m"\nheaders = { Authorization = "Bearer ${T}" }',
        files={"trajectory.json": '{"steps": []}'},
    )
    agent = Agent()
    outcome = await run_trial(
        load_task(folder),
        harness=agent,
        provider=provider,
        trials_dir=tmp_path,
        trial_name="t",
        options=TrialOptions(
            host_env={"T": "secret-value"},
            agent_timeout_multiplier=3,
            extra_instructions=("And be quick.",),
            agent_env={"X": "1"},
        ),
    )
    (task,) = agent.seen
    assert task.instruction == "Do what has to be done.\n\n\nAnd be quick."
    assert (task.timeout_seconds, task.user, task.workdir, task.skills_dir) == (
        30,
        "worker",
        "/work",
        "/skills",
    )
    assert (task.env, task.trajectory) == ({"X": "1"}, {"steps": []})
    assert task.mcp_servers[0].headers == {"Authorization": "Bearer secret-value"}
    assert not any("secret-value" in path.read_text() for path in outcome.trial_dir.rglob("*.*"))


@pytest.mark.parametrize(
    ("status", "trial_status", "exception"),
    [
        ("finished", "ok", None),
        ("timeout", "agent_timeout", "AgentTimeoutError"),
        ("nonzero_exit", "agent_nonzero", "NonZeroAgentExitCodeError"),
        ("context_exceeded", "context_exceeded", "ContextWindowExceededError"),
        ("output_exceeded", "output_exceeded", "OutputLengthExceededError"),
        ("max_turns", "max_turns", None),
    ],
)
async def test_the_agents_own_endings_keep_what_it_earned(
    write_task, provider, tmp_path, status, trial_status, exception
):
    agent = Agent("touch /work/done", HarnessResult(status=status, exit_code=1))
    outcome = await run(write_task(files=SOLVING), provider, tmp_path, agent)
    assert (outcome.status, outcome.rewards) == (trial_status, {"reward": 1.0})
    found = result_of(outcome)["exception_info"]
    assert (found and found["exception_type"]) == exception
    assert (outcome.error is None) == (trial_status == "ok")


@pytest.mark.parametrize(
    ("failure", "status"),
    [
        (SandboxGoneError("the container is not running"), "infra_error"),
        (HarnessError("npm is not there"), "infra_error"),
        (RuntimeError("a bug of the agent's adapter"), "infra_error"),
        (TimeoutError("of a client of its own"), "infra_error"),
    ],
)
async def test_what_is_not_the_agents_doing_leaves_no_reward(write_task, provider, tmp_path, failure, status):
    outcome = await run(
        write_task(files=SOLVING), provider, tmp_path, Agent("touch /work/done", failure=failure)
    )
    assert (outcome.status, outcome.rewards, outcome.reward) == (status, None, None)
    assert str(failure) in outcome.error
    found = result_of(outcome)
    assert (found["verifier_result"], found["reward_valid"]) == (None, False)
    assert provider.boxes[0].closed


async def test_a_box_that_dies_under_the_agent_is_no_zero(write_task, provider, tmp_path):
    """E5: what follows in a dead box fails too, and none of it is the task's result."""

    class Killer(Agent):
        async def run(self, task, sandbox, endpoint):
            sandbox.gone = True
            return HarnessResult(status="finished")

    outcome = await run(write_task(files=SOLVING), provider, tmp_path, Killer())
    assert (outcome.status, outcome.rewards) == ("infra_error", None)
    assert "not running" in outcome.error


@pytest.mark.parametrize(
    ("failure", "name"),
    [
        (SandboxBuildError("no such base"), "SandboxBuildFailedError"),
        (SandboxStartError("no room"), "EnvironmentStartTimeoutError"),
    ],
)
async def test_a_box_that_does_not_start_is_no_zero(write_task, provider, tmp_path, failure, name):
    provider.failure = failure
    outcome = await run(write_task(), provider, tmp_path)
    assert (outcome.status, outcome.rewards, outcome.steps) == ("infra_error", None, ())
    assert result_of(outcome)["exception_info"]["exception_type"] == name
    assert str(failure) in (outcome.trial_dir / "exception.txt").read_text()


async def test_an_agent_that_cannot_be_set_up_is_no_zero(write_task, provider, tmp_path):
    outcome = await run(write_task(), provider, tmp_path, Agent(setup_failure=HarnessError("no npm")))
    assert (outcome.status, outcome.rewards, outcome.error) == ("infra_error", None, "no npm")


@pytest.mark.parametrize("status", ["finished", "nonzero_exit", "timeout"])
async def test_a_model_that_is_not_there_is_no_zero_however_the_agent_ends(
    write_task, provider, tmp_path, status
):
    """As a sandbox's relay notes it: nothing listens at the model's address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"

    class Asking(Agent):
        async def run(self, task, sandbox, endpoint):
            relay, listening = ModelRelay(endpoint), socket.create_server(("127.0.0.1", 0))
            await relay.start(listening)
            inside = relay.inside(f"http://127.0.0.1:{listening.getsockname()[1]}")
            headers = {"Authorization": f"Bearer {inside.api_key}"}
            async with aiohttp.ClientSession(headers=headers) as client:
                await client.post(f"{inside.base_url}/chat/completions", json={})
            await relay.aclose()
            return HarnessResult(status=status, exit_code=int(status == "nonzero_exit"))

    outcome = await run_trial(
        load_task(write_task(files=SOLVING)),
        harness=Asking(),
        provider=provider,
        trials_dir=tmp_path / "trials",
        trial_name="t",
        options=TrialOptions(host_env={}),
        endpoint=ModelEndpoint(base_url=url, api_key="k", model="m"),
    )
    assert (outcome.status, outcome.rewards) == ("infra_error", None)
    assert outcome.error.startswith(
        "the model cannot be reached: ClientConnectorError, and nothing after that"
    )
    assert "--base-url" in outcome.error
    assert "/tests" not in [what for kind, what in provider.boxes[0].calls if kind == "upload"]


async def test_an_exec_limit_that_the_harness_lets_through_is_the_agents_time(write_task, provider, tmp_path):
    class Passing(Agent):
        async def run(self, task, sandbox, endpoint):
            await sandbox.exec(["sleep", "60"], timeout_seconds=task.timeout_seconds)

    folder = write_task("[agent]\ntimeout_sec = 0.6", files=SOLVING)
    outcome = await run(folder, provider, tmp_path, Passing())
    assert (outcome.status, outcome.rewards) == ("agent_timeout", {"reward": 0.0})


@pytest.mark.parametrize("toml", ["", "[agent]\ntimeout_sec = 60"], ids=["no limit", "limit"])
async def test_a_command_of_the_harness_that_takes_too_long_is_no_zero(write_task, provider, tmp_path, toml):
    failure = ExecTimeoutError("mkdir took longer than 60 s", result=None)
    outcome = await run(write_task(toml, files=SOLVING), provider, tmp_path, Agent(failure=failure))
    assert (outcome.status, outcome.rewards) == ("infra_error", None)


async def test_an_agent_that_ignores_its_limit_is_given_up_and_verified(
    write_task, provider, tmp_path, skip_seconds
):
    class Endless(Agent):
        async def run(self, task, sandbox, endpoint):
            asyncio.get_running_loop().call_soon(skip_seconds, 1000)
            await asyncio.Event().wait()

    outcome = await run(write_task("[agent]\ntimeout_sec = 5", files=SOLVING), provider, tmp_path, Endless())
    assert (outcome.status, outcome.rewards) == ("agent_timeout", {"reward": 0.0})
    assert "5 s" in outcome.error
    assert provider.boxes[0].kinds().count("end_processes") == 2


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("exit 0", "neither reward.json nor reward.txt"),
        ("echo fine > /logs/verifier/reward.txt", "fine"),
        ("ln -s /work/done /logs/verifier/reward.txt", "neither"),
        ("echo '{\"reward\": NaN}' > /logs/verifier/reward.json", "not finite"),
        ("mkdir /logs/verifier/reward.json", "no regular file"),
        ("mkdir /logs/verifier/reward.txt", "no regular file"),
    ],
)
async def test_a_verifier_without_a_decision_is_no_zero(write_task, provider, tmp_path, script, said):
    folder = write_task(files={**SOLVING, "tests/test.sh": f"#!/bin/sh\n{script}\n"})
    outcome = await run(folder, provider, tmp_path, OracleHarness())
    assert (outcome.status, outcome.rewards) == ("verifier_error", None)
    assert said in outcome.error


@pytest.mark.parametrize("code", [0, 1, 7])
async def test_the_exit_code_of_the_tests_decides_nothing_and_is_recorded(
    write_task, provider, tmp_path, code
):
    script = f"#!/bin/sh\necho 1 > /logs/verifier/reward.txt\nexit {code}\n"
    outcome = await run(write_task(files={"tests/test.sh": script}), provider, tmp_path)
    assert (outcome.rewards, outcome.steps[0].test_exit_code) == ({"reward": 1.0}, code)
    assert result_of(outcome)["castform"]["test_exit_codes"] == [code]


async def test_tests_that_take_too_long_are_no_zero(write_task, provider, tmp_path):
    script = "#!/bin/sh\necho 1 > /logs/verifier/reward.txt\nsleep 30\n"
    folder = write_task("[verifier]\ntimeout_sec = 0.2", files={"tests/test.sh": script})
    outcome = await run(folder, provider, tmp_path)
    assert (outcome.status, outcome.rewards) == ("verifier_error", None)
    assert result_of(outcome)["exception_info"]["exception_type"] == "VerifierTimeoutError"
    assert (outcome.trial_dir / "verifier" / "test-stdout.txt").exists()


async def test_a_background_child_of_the_tests_keeps_nobody_waiting(write_task, provider, tmp_path):
    script = "#!/bin/sh\nsleep 60 &\necho 1 > /logs/verifier/reward.txt\n"
    async with asyncio.timeout(20):
        outcome = await run(write_task(files={"tests/test.sh": script}), provider, tmp_path)
    assert outcome.rewards == {"reward": 1.0}


@pytest.mark.parametrize(
    "plant",
    [
        "echo 1 > /logs/verifier/reward.txt",
        "echo 1 > /logs/verifier/reward.json",
        "mkdir /tests; echo 1 > /logs/verifier/reward.txt",
        "rm -rf /logs/verifier; ln -s /work /logs/verifier; echo 1 > /work/reward.txt",
        "mkfifo /logs/verifier/test-stdout.txt",
        "(while :; do echo 1 > /logs/verifier/reward.txt; done) > /dev/null 2>&1 &",
    ],
)
async def test_a_planted_reward_is_none(write_task, provider, tmp_path, plant):
    """The tests write nothing: whatever is read was not theirs."""
    folder = write_task(files={"tests/test.sh": "#!/bin/sh\n[ ! -e /tests/planted ]\n"})
    outcome = await run(folder, provider, tmp_path, Agent(plant))
    assert (outcome.status, outcome.rewards) == ("verifier_error", None)


async def test_what_the_agent_put_in_tests_is_gone(write_task, provider, tmp_path):
    script = "#!/bin/sh\n[ -e /tests/conftest.py ] && echo 1 > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt\n"
    agent = Agent("mkdir /tests; touch /tests/conftest.py")
    outcome = await run(write_task(files={"tests/test.sh": script}), provider, tmp_path, agent)
    assert outcome.rewards == {"reward": 0.0}


async def test_output_that_is_too_large_costs_the_log_and_not_the_reward(write_task, provider, tmp_path):
    script = "#!/bin/sh\nhead -c 3000000 /dev/zero\necho last words\necho 1 > /logs/verifier/reward.txt\n"
    folder = write_task(files={"tests/test.sh": script})
    outcome = await run(folder, provider, tmp_path, max_download_bytes=100_000)
    assert outcome.rewards == {"reward": 1.0}
    kept = (outcome.trial_dir / "verifier" / "test-stdout.txt").read_bytes()
    assert len(kept) == 1 << 20
    assert kept.endswith(b"last words\n")
    assert any("not carried out whole" in warning for warning in outcome.warnings)


async def test_a_separate_verifier_sees_the_artifacts_alone(write_task, provider, tmp_path):
    script = (
        "#!/bin/sh\n[ -e /work/done ] && [ ! -e /work/other ] && [ -e /logs/artifacts/note ] "
        "&& echo 1 > /logs/verifier/reward.txt\n"
    )
    folder = write_task(
        'artifacts = ["done"]\n[verifier]\nenvironment_mode = "separate"\nenv = { A = "${B}" }',
        files={"tests/test.sh": script},
    )
    agent = Agent("touch /work/done /work/other /logs/artifacts/note")
    outcome = await run_trial(
        load_task(folder),
        harness=agent,
        provider=provider,
        trials_dir=tmp_path,
        trial_name="t",
        options=TrialOptions(host_env={"B": "b"}),
    )
    assert (outcome.rewards, outcome.steps[0].verifier) == ({"reward": 1.0}, "separate")
    ours, theirs = provider.boxes
    assert ours.kinds().count("close") == 2  # before the verifier's starts, and at the end
    assert "/tests" not in [what for kind, what in ours.calls if kind == "upload"]
    tests = next(
        call for kind, call in theirs.calls if kind == "exec" and "/tests/test.sh" in call["command"][-1]
    )
    assert tests["env"] == {"A": "b"}


@pytest.mark.parametrize(
    "artifact",
    [
        '"/logs/verifier"',
        '"/logs/verifier/reward.txt"',
        '{ source = "/logs", destination = "all" }',
        '"//logs/verifier"',
        '"/tests"',
    ],
)
async def test_an_artifact_is_no_way_to_plant_a_reward(write_task, provider, tmp_path, artifact):
    folder = write_task(
        f'artifacts = [{artifact}]\n[verifier]\nenvironment_mode = "separate"',
        files={"tests/test.sh": "#!/bin/sh\n"},
    )
    agent = Agent("mkdir -p /tests; echo 1 > /tests/test.sh; echo 1 > /logs/verifier/reward.txt")
    outcome = await run(folder, provider, tmp_path, agent)
    assert (outcome.status, outcome.rewards) == ("verifier_error", None)
    assert any("the verifier" in warning for warning in outcome.warnings)


async def test_fresh_verification_gives_a_shared_task_a_box_of_its_own(write_task, provider, tmp_path):
    folder = write_task('artifacts = ["/work/done"]', files=SOLVING)
    outcome = await run(folder, provider, tmp_path, OracleHarness(), verifier="fresh")
    assert (outcome.rewards, outcome.steps[0].verifier, len(provider.boxes)) == ({"reward": 1.0}, "fresh", 2)
    assert provider.boxes[0].request.image == provider.boxes[1].request.image


async def test_a_relative_artifact_of_the_callers_lies_in_the_working_folder(write_task, provider, tmp_path):
    folder = write_task(files=SOLVING)
    given = (Artifact(source="./done"),)
    outcome = await run(folder, provider, tmp_path, OracleHarness(), verifier="fresh", artifacts=given)
    assert outcome.rewards == {"reward": 1.0}
    assert (outcome.trial_dir / "artifacts" / "work" / "done").is_file()


@pytest.mark.parametrize("verifier", ["task", "fresh"])
async def test_a_trial_has_no_files_where_no_reaper_looks(
    write_task, provider, tmp_path, monkeypatch, verifier
):
    monkeypatch.setenv("CASTFORM_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    folder = write_task('artifacts = ["/work/done", "/logs", "/logs/artifacts"]', files=SOLVING)
    outcome = await run(folder, provider, tmp_path, OracleHarness(), verifier=verifier)
    assert (outcome.status, outcome.rewards) == ("ok", {"reward": 1.0})
    assert list((tmp_path / "home" / "sandboxes" / ".scratch").iterdir()) == []


async def test_fresh_verification_needs_something_to_verify(write_task, provider, tmp_path):
    task = load_task(write_task(files=SOLVING))
    assert not allows_fresh_verifier(task)
    with pytest.raises(UsageError, match="declares no artifacts"):
        await run(task.folder, provider, tmp_path, verifier="fresh")
    assert provider.boxes == []
    given = TrialOptions(artifacts=(Artifact(source="/work/done"),))
    assert allows_fresh_verifier(task, given)


@pytest.mark.parametrize(
    "artifact",
    [
        Artifact(source="/work/../../out"),
        Artifact(source="/work", destination="../out"),
        Artifact(source="/"),
    ],
    ids=["source", "destination", "everything"],
)
async def test_an_artifact_of_the_callers_stays_in_the_trials_folder(
    write_task, provider, tmp_path, artifact
):
    with pytest.raises(UsageError, match="an artifact"):
        await run(write_task(), provider, tmp_path, artifacts=(artifact,))
    assert provider.boxes == []


async def test_tests_that_an_image_brings_stay_beside_the_tasks_own(write_task, tmp_path):
    class Furnished(FakeProvider):
        async def start(self, request):
            box = await super().start(request)
            box.place("/tests").mkdir()
            box.place("/tests/table").write_text("1")
            return box

    script = "#!/bin/sh\ncp /tests/table /logs/verifier/reward.txt\n"
    outcome = await run(
        write_task(files={"tests/test.sh": script}), Furnished(tmp_path / "furnished"), tmp_path
    )
    assert outcome.rewards == {"reward": 1.0}


async def test_the_most_time_holds_for_a_task_that_says_none(write_task, provider, tmp_path):
    agent = Agent()
    await run(write_task(), provider, tmp_path, agent, max_agent_timeout_seconds=9)
    assert agent.seen[0].timeout_seconds == 9


async def test_a_log_that_cannot_be_written_leaves_no_box(write_task, provider, tmp_path, monkeypatch):
    def refuse(self, text):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(TrialLog, "write", refuse)
    with pytest.raises(OSError, match="No space"):
        await run(write_task(), provider, tmp_path)
    assert [box.closed for box in provider.boxes] == [True]


async def test_artifacts_are_carried_out_with_a_manifest(write_task, provider, tmp_path):
    folder = write_task(
        'artifacts = ["/work/a", { source = "/work/d", destination = "kept/d", exclude = ["*.o"] }, "/work/none"]'
    )
    agent = Agent(
        "echo a > /work/a; mkdir /work/d; touch /work/d/x.o /work/d/x.c; ln -s /etc/passwd /work/d/l"
    )
    outcome = await run(folder, provider, tmp_path, agent)
    place = outcome.trial_dir / "artifacts"
    files = {path.relative_to(place).as_posix() for path in place.rglob("*") if not path.is_dir()}
    assert files == {"work/a", "kept/d/x.c", "manifest.json"}
    manifest = json.loads((place / "manifest.json").read_text())
    assert [(entry["source"], entry["type"], entry["status"]) for entry in manifest] == [
        ("/logs/artifacts", "directory", "empty"),
        ("/work/a", "file", "ok"),
        ("/work/d", "directory", "ok"),
        ("/work/none", "directory", "failed"),
    ]


async def test_collect_hooks_come_before_artifacts_and_may_fail(write_task, provider, tmp_path):
    folder = write_task(
        "[[verifier.collect]]\ncommand = 'echo state > /logs/artifacts/state'\nuser = 'root'\n"
        "[[verifier.collect]]\ncommand = 'exit 3'\n"
        "[[verifier.collect]]\ncommand = 'sleep 30'\ntimeout_sec = 0.1\n"
    )
    outcome = await run(folder, provider, tmp_path)
    assert (outcome.trial_dir / "artifacts/logs/artifacts/state").read_text() == "state\n"
    assert (outcome.status, outcome.reward) == ("ok", 1.0)
    assert [
        warning for warning in outcome.warnings if "exit code 3" in warning or "0.1 s" in warning
    ] == list(outcome.warnings)


async def test_a_healthcheck_is_tried_until_it_succeeds(write_task, provider, tmp_path):
    folder = write_task(
        "[environment.healthcheck]\ncommand = 'echo x >> /work/tries; [ $(wc -l < /work/tries) = 3 ]'\ninterval_sec = 0"
    )
    assert (await run(folder, provider, tmp_path)).status == "ok"


async def test_a_box_that_never_becomes_ready_is_no_zero(write_task, provider, tmp_path):
    folder = write_task("[environment.healthcheck]\ncommand = 'false'\ninterval_sec = 0\nretries = 2")
    outcome = await run(folder, provider, tmp_path)
    assert (outcome.status, outcome.rewards) == ("infra_error", None)
    assert result_of(outcome)["exception_info"]["exception_type"] == "HealthcheckError"


async def test_networks_follow_the_phases(write_task, provider, tmp_path):
    folder = write_task(
        '[agent]\nnetwork_mode = "no-network"\n[verifier]\nnetwork_mode = "allowlist"\nallowed_hosts = ["a.org"]'
    )
    await run(folder, provider, tmp_path)
    assert provider.boxes[0].request.network.mode == "public"
    assert [what for kind, what in provider.boxes[0].calls if kind == "network"] == ["none", "allowlist"]


async def test_without_a_network_no_phase_has_one(write_task, provider, tmp_path):
    folder = write_task('[agent]\nnetwork_mode = "public"\n[environment]\nnetwork_mode = "public"')
    await run(folder, provider, tmp_path, network="none")
    assert provider.boxes[0].request.network.mode == "none"
    assert "network" not in provider.boxes[0].kinds()


async def test_harbors_default_network_is_not_insisted_on(write_task, tmp_path):
    closed = replace(EVERYTHING, networks=frozenset({"none"}))
    provider = FakeProvider(tmp_path / "boxes", closed)
    outcome = await run(write_task(), provider, tmp_path)
    assert provider.boxes[0].request.network.mode == "none"
    assert "says nothing of the network" in outcome.warnings[0]


@pytest.mark.parametrize(
    ("toml", "files", "capabilities", "said"),
    [
        ('[environment]\nos = "windows"', {"tests/test.bat": ""}, {}, "Windows"),
        ("[environment]\ngpus = 1", {}, {}, "GPU"),
        ("", {"environment/docker-compose.yaml": "services: {}"}, {}, "Compose"),
        ('artifacts = [{ source = "/a", service = "db" }]', {}, {}, "'db'"),
        ('[environment]\nnetwork_mode = "public"', {}, {"networks": frozenset({"none"})}, "'public'"),
        ('[agent]\nuser = "worker"', {}, {"users": False}, "worker"),
        ('[environment]\ndocker_image = "a"', {}, {"images": False}, "names an image"),
        ("", {}, {"isolated": False}, "isolates nothing"),
    ],
)
async def test_what_the_sandbox_does_not_have_is_refused_before_it_starts(
    write_task, tmp_path, toml, files, capabilities, said
):
    provider = FakeProvider(tmp_path / "boxes", replace(EVERYTHING, **capabilities))
    folder = write_task(toml, files=files)
    with pytest.raises(UsageError, match=said):
        await run(folder, provider, tmp_path)
    assert provider.boxes == []
    assert not (tmp_path / "trials").exists()
    assert (find_unsupported(load_task(folder), EVERYTHING) == []) == bool(capabilities)


async def test_a_variable_that_is_not_set_is_named_before_anything_starts(write_task, provider, tmp_path):
    folder = write_task('[verifier.env]\nKEY = "${JUDGE_KEY}"')
    with pytest.raises(UsageError, match="JUDGE_KEY"):
        await run(folder, provider, tmp_path)
    solved = write_task('[solution.env]\nKEY = "${SOLVER_KEY}"', name="solved", files=SOLVING)
    with pytest.raises(UsageError, match="SOLVER_KEY"):
        await run(solved, provider, tmp_path, OracleHarness())
    assert provider.boxes == []


async def test_a_folder_that_is_there_is_not_written_over(write_task, provider, tmp_path):
    folder = write_task()
    await run(folder, provider, tmp_path)
    with pytest.raises(UsageError, match="is there already"):
        await run(folder, provider, tmp_path)
    with pytest.raises(UsageError, match="no name"):
        await run(folder, provider, tmp_path, name="../t")


async def test_a_cancelled_trial_closes_its_box_and_says_so(write_task, provider, tmp_path):
    started = asyncio.Event()

    class Waiting(Agent):
        async def run(self, task, sandbox, endpoint):
            started.set()
            await sandbox.exec(["sleep", "60"])

    trial = asyncio.ensure_future(run(write_task(), provider, tmp_path, Waiting()))
    await started.wait()
    trial.cancel()
    with pytest.raises(asyncio.CancelledError):
        await trial
    assert provider.boxes[0].closed
    found = json.loads((tmp_path / "trials" / "t" / "result.json").read_text())
    assert found["exception_info"]["exception_type"] == "CancelledError"
    assert (found["castform"]["status"], found["verifier_result"]) == ("cancelled", None)


async def test_a_trajectory_of_the_agent_is_kept(write_task, provider, tmp_path):
    metrics = {"total_prompt_tokens": 7, "total_completion_tokens": 3, "total_cost_usd": 0.5}
    trajectory = {"schema_version": "ATIF-v1.6", "final_metrics": metrics}
    agent = Agent(result=HarnessResult(status="finished", trajectory=trajectory, output="the end"))
    outcome = await run(write_task(), provider, tmp_path, agent)
    assert json.loads((outcome.trial_dir / "agent" / "trajectory.json").read_text()) == trajectory
    assert (outcome.trial_dir / "agent" / "output.txt").read_text() == "the end"
    found = result_of(outcome)["agent_result"]
    assert (found["n_input_tokens"], found["n_output_tokens"], found["cost_usd"]) == (7, 3, 0.5)


async def test_secrets_do_not_stay_in_the_files(write_task, provider, tmp_path):
    folder = write_task(
        '[verifier.env]\nJUDGE_KEY = "${JUDGE_KEY}"',
        files={"tests/test.sh": '#!/bin/sh\necho "using $JUDGE_KEY"\necho 1 > /logs/verifier/reward.txt\n'},
    )
    outcome = await run_trial(
        load_task(folder),
        harness=NopHarness(),
        provider=provider,
        trials_dir=tmp_path,
        trial_name="t",
        options=TrialOptions(host_env={"JUDGE_KEY": "sk-123456789"}),
    )
    assert (outcome.trial_dir / "verifier" / "test-stdout.txt").read_text() == "using [redacted]\n"


async def test_nothing_is_verified_when_nobody_asks(write_task, provider, tmp_path):
    outcome = await run(write_task(), provider, tmp_path, verify=False)
    assert (outcome.status, outcome.rewards, outcome.steps[0].verifier) == ("ok", None, None)
