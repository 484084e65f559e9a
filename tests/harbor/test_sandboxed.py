"""Every kind of task, in real boxes: the oracle gets 1, nop gets 0; and attacks that need a real box."""

from __future__ import annotations

import asyncio
import http.server
import json
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

from castform.cli.main import main
from castform.harness.contract import HarnessResult
from castform.sandbox import load_provider
from castform_harbor.job import Job, run_job
from castform_harbor.reference_agents import NopHarness, OracleHarness
from castform_harbor.support import find_unsupported
from castform_harbor.task import load_task
from castform_harbor.tasks import load_tasks
from castform_harbor.trial import run_trial
from castform_harbor.trial_types import TrialOptions

HERE = Path(__file__).parent
TASKS = HERE / "tasks"
SANDBOXES = [
    pytest.param("docker", marks=pytest.mark.docker),
    pytest.param("bubblewrap", marks=pytest.mark.bubblewrap),
]
NOT_ON = {"docker": {}, "bubblewrap": {"separate-docker-image": "names an image"}}
"""Tasks that a sandbox refuses, and the word it has for it."""


@dataclass
class Agent:
    """Runs one script in the box."""

    script: str
    name: str = "scripted"
    version: str | None = None

    async def setup(self, sandbox):
        """Nothing."""

    async def run(self, task, sandbox, endpoint):
        await sandbox.exec(["sh", "-c", self.script], user=task.user, timeout_seconds=task.timeout_seconds)
        return HarnessResult(status="finished")


@pytest.fixture
async def sandbox(request):
    if request.param == "docker":
        request.getfixturevalue("judge_image")
    provider = load_provider(request.param)
    yield provider
    await provider.aclose()


@pytest.mark.parametrize("sandbox", SANDBOXES, indirect=True)
async def test_every_kind_of_task_gives_the_oracle_one_and_nop_nothing(sandbox, tmp_path):
    tasks = load_tasks(TASKS)
    capabilities = await sandbox.check()
    refused = {task.folder.name: found for task in tasks if (found := find_unsupported(task, capabilities))}
    assert refused.keys() == NOT_ON[sandbox.name].keys()
    for name, word in NOT_ON[sandbox.name].items():
        assert word in refused[name][0]
    fitting = [task for task in tasks if task.folder.name not in refused]

    async def run_all(harness, expected):
        job = Job(
            tasks=fitting,
            folder=tmp_path / harness.name,
            agent=harness.name,
            sandbox=sandbox.name,
            concurrency=4,
        )
        trials = await run_job(job, harness=harness, provider=sandbox)
        return {
            trial.name: (trial.status, trial.reward, trial.error)
            for trial in trials
            if trial.reward != expected
        }

    wrong = await asyncio.gather(run_all(OracleHarness(), 1.0), run_all(NopHarness(), 0.0))
    assert wrong == [{}, {}]


PLANTS = """
mkdir -p /tests /work; echo 'echo 1 > /logs/verifier/reward.txt' > /tests/test.sh
echo 1 > /logs/verifier/reward.txt; echo '{"reward": 1}' > /logs/verifier/reward.json
touch /tests/conftest.py
(while :; do echo 1 > /logs/verifier/reward.txt; sleep 0.01; done) > /dev/null 2>&1 &
setsid sh -c 'while :; do echo 1 > /logs/verifier/reward.json; sleep 0.01; done' > /dev/null 2>&1 &
"""


@pytest.mark.parametrize("sandbox", SANDBOXES, indirect=True)
async def test_nothing_of_an_agents_is_a_reward(sandbox, write_task, tmp_path):
    """The tests decide nothing, slowly: what is read afterwards was planted, or is not there."""
    task = load_task(
        write_task(
            "[agent]\ntimeout_sec = 20\n[environment]\nnetwork_mode = 'no-network'",
            files={"tests/test.sh": "#!/bin/sh\nls /tests\nsleep 0.3\n"},
        )
    )
    outcome = await run_trial(
        task, harness=Agent(PLANTS), provider=sandbox, trials_dir=tmp_path, trial_name="t"
    )
    assert (outcome.status, outcome.rewards) == ("verifier_error", None)
    assert (outcome.trial_dir / "verifier" / "test-stdout.txt").read_text() == "test.sh\n"


@pytest.mark.parametrize("sandbox", SANDBOXES, indirect=True)
async def test_a_fresh_verifier_is_reached_by_the_artifact_alone(sandbox, write_task, tmp_path):
    """As root the agent replaces what the tests run with; the new box has its own."""
    spoil = (
        PLANTS
        + "echo wrong > /work/answer.txt; cp /bin/true /usr/bin/grep 2>/dev/null; echo 'exit 0' > /etc/profile"
    )
    task = load_task(
        write_task(
            "artifacts = ['/work/answer.txt']\n[environment]\nnetwork_mode = 'no-network'",
            files={
                "tests/test.sh": "#!/bin/sh\ngrep -q right /work/answer.txt && r=1 || r=0\necho $r > /logs/verifier/reward.txt\n"
            },
        )
    )
    rewards = []
    for name, script in (("bad", spoil), ("good", "mkdir -p /work; echo right > /work/answer.txt")):
        outcome = await run_trial(
            task,
            harness=Agent(script),
            provider=sandbox,
            trials_dir=tmp_path,
            trial_name=name,
            options=TrialOptions(verifier="fresh"),
        )
        assert outcome.steps[0].verifier == "fresh"
        rewards.append(outcome.rewards)
    assert rewards == [{"reward": 0.0}, {"reward": 1.0}]


@pytest.mark.parametrize("sandbox", SANDBOXES, indirect=True)
async def test_an_oracle_that_runs_out_of_time_is_ended_inside_with_all_it_started(
    sandbox, write_task, tmp_path
):
    """E3: what it made before stays, and nothing of it beats on under the tests."""
    task = load_task(
        write_task(
            "[agent]\ntimeout_sec = 1\n[environment]\nnetwork_mode = 'no-network'",
            files={
                "solution/solve.sh": "#!/bin/sh\necho kept > /tmp/kept\n"
                "(while :; do date +%s%N > /tmp/beat; sleep 0.05; done) &\nwait\n",
                "tests/test.sh": '#!/bin/sh\n[ "$(cat /tmp/kept)" = kept ] || exit 1\n'
                "one=$(cat /tmp/beat); sleep 0.5\n"
                '[ "$one" = "$(cat /tmp/beat)" ] && echo 1 > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt\n',
            },
        )
    )
    outcome = await run_trial(
        task, harness=OracleHarness(), provider=sandbox, trials_dir=tmp_path, trial_name="t"
    )
    assert (outcome.status, outcome.rewards) == ("agent_timeout", {"reward": 1.0})


@pytest.mark.docker
def test_ctrl_c_leaves_no_box_behind(write_task, tmp_path):
    files = {"solution/solve.sh": "#!/bin/sh\necho started\nsleep 600\n"}
    folder = write_task("[environment]\nnetwork_mode = 'no-network'", name="endless", files=files)
    jobs = tmp_path / "jobs"
    command = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "castform",
            "harbor",
            "run",
            str(folder),
            "--jobs-dir",
            str(jobs),
            "--job-name",
            "j",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    trial = jobs / "j" / "endless__1"
    try:
        wait_for(lambda: "oracle starts" in read(trial / "trial.log") or command.poll() is not None)
        assert command.poll() is None, command.communicate()[0]
        command.send_signal(signal.SIGINT)
        said, _ = command.communicate(timeout=60)
    finally:
        command.kill()
    assert (command.returncode, "interrupted" in said) == (130, True), said
    assert json.loads((trial / "result.json").read_text())["castform"]["status"] == "cancelled"
    import docker

    left = docker.from_env().containers.list(all=True, filters={"label": "harbor.trial=endless__1"})
    assert left == []


class OneReply(http.server.BaseHTTPRequestHandler):
    """A chat completions server that says one thing, and notes with which keys it was asked."""

    keys: ClassVar[list[str]] = []
    text = "```sh\nseq 5 > /work/count.txt\n```\nDONE"

    def do_POST(self) -> None:
        self.keys.append(self.headers["Authorization"])
        self.rfile.read(int(self.headers["Content-Length"]))
        message = {"role": "assistant", "content": self.text}
        reply = {
            "id": "c",
            "object": "chat.completion",
            "created": 1,
            "model": "m",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12},
        }
        data = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *words) -> None:
        """Nothing: the test's output is its own."""


@pytest.mark.bubblewrap
def test_an_agent_with_a_model_behind_a_server_earns_its_reward(tmp_path, monkeypatch, capsys):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), OneReply)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("SCRIPTED_KEY", "sk-of-the-server")
    words = ["--agent", "terminus-lite", "--sandbox", "bubblewrap", "--jobs-dir", str(tmp_path), "--json"]
    url = f"http://127.0.0.1:{server.server_port}/v1"
    model = ["-m", "m", "--base-url", url, "--api-key-env", "SCRIPTED_KEY"]
    try:
        code = main(["harbor", "run", str(TASKS / "shared-default"), *words, *model])
    finally:
        server.shutdown()
        server.server_close()
    (trial,) = json.loads(capsys.readouterr().out)["trials"]
    assert (code, trial["status"], trial["rewards"]) == (0, "ok", {"reward": 1.0, "lines": 5.0})
    assert set(OneReply.keys) == {"Bearer sk-of-the-server"}
    folder = Path(trial["folder"])
    trajectory = json.loads((folder / "agent" / "trajectory.json").read_text())
    assert trajectory["agent"]["name"] == "terminus-lite"
    assert not any("sk-of-the-server" in path.read_text() for path in folder.rglob("*.*") if path.is_file())


def wait_for(fact) -> None:
    """Poll for a fact, for a minute at most."""
    end = time.monotonic() + 60
    while not fact():
        assert time.monotonic() < end, "it did not come to pass within a minute"
        time.sleep(0.05)


def read(path: Path) -> str:
    return path.read_text() if path.exists() else ""
