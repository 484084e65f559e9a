"""One environment is certified in time whatever its code does to the process that it runs in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from castform.certify.alone import certify_alone
from castform.certify.certification import CertifyOptions
from castform.errors import MissingError, UsageError

ENVIRONMENT = """
import os, random, re, subprocess, sys, threading, time
from benchmax.envs import BaseEnv, Dataset, Example
from castform.plugins import MissingError

class Doubles(BaseEnv):
    max_turns = 1

    async def create_dataset(self, split, base_dir, *, max_examples=None):
        {data}
        first = 10 if split == "train" else 60
        return Dataset(
            [
                Example(f"n{{n}}", {{"prompt_messages": [{{"role": "user", "content": f"Double {{n}}."}}], "answer": str(2 * n)}})
                for n in range(first, first + min(max_examples or 6, 6))
            ]
        )

    async def compute_reward(self, rollout):
        text = rollout.messages[-1]["content"] or ""
        {body}
        return {{"correct": float(rollout.example_args["answer"] in text.split()[-1:])}}
"""

LINE = ENVIRONMENT[: ENVIRONMENT.index("{body}")].count("\n") + 1
"""Where the body stands."""


def write(folder: Path, body: str = "pass", data: str = "pass") -> str:
    path = folder / "doubles.py"
    path.write_text(ENVIRONMENT.format(body=body, data=data))
    return str(path)


def certify(path: str, **options: object):
    return certify_alone(
        path,
        options=CertifyOptions(**{"examples": 2, "only": "gold", "max_seconds": 2.0} | options),
        grace_seconds=1.0,
    )


@pytest.mark.parametrize(
    "body",
    [
        "while True: pass",
        pytest.param("time.sleep(1e6)", marks=pytest.mark.slow),
        'assert re.match(r"(a+)+$", "a" * 64 + "b")',  # keeps the interpreter's lock
    ],
)
def test_a_reward_that_holds_the_loop_for_ever_is_ended_and_its_line_named(tmp_path, body):
    result = certify(write(tmp_path, body))
    assert result.certification is None
    assert (result.failure.level, result.failure.code) == ("fault", "certify_timeout")
    assert "castform was at right answers and probes" in result.failure.message
    assert f"it stood at compute_reward (doubles.py:{LINE})" in result.failure.message
    assert result.passed is False


@pytest.mark.parametrize(
    ("body", "how"),
    [
        ("os._exit(0)", "exit code 0"),
        pytest.param("os._exit(3)", "exit code 3", marks=pytest.mark.slow),
        pytest.param("os.kill(os.getpid(), 11)", "signal SIGSEGV", marks=pytest.mark.slow),
    ],
)
def test_a_reward_that_ends_its_process_is_a_fault(tmp_path, body, how):
    result = certify(write(tmp_path, body), max_seconds=60.0)
    assert result.failure.code == "certify_crashed"
    assert result.failure.message.endswith(f"while castform was at right answers and probes: {how}")


def test_an_environment_may_use_processes_of_its_own(tmp_path):
    body = (
        "import asyncio, concurrent.futures; global POOL; "
        "POOL = globals().get('POOL') or concurrent.futures.ProcessPoolExecutor(1); "
        "assert await asyncio.get_running_loop().run_in_executor(POOL, abs, -3) == 3"
    )
    result = certify(write(tmp_path, body), max_seconds=60.0)
    assert result.certification is not None, result.failure
    assert result.certification.findings == ()


def test_an_error_keeps_its_kind_and_hint(tmp_path):
    with pytest.raises(MissingError, match="no judge") as caught:
        certify(write(tmp_path, data="raise MissingError('no judge', hint='start one')"))
    assert caught.value.hint == "start one"
    with pytest.raises(UsageError, match="there is no probe or check called 'nosuch'"):
        certify(write(tmp_path), only="nosuch")


def test_what_an_environment_prints_or_leaves_behind_harms_nothing(tmp_path):
    body = (
        "print('{'); subprocess.run(['echo', '{']); threading.Thread(target=time.sleep, args=(900,)).start(); "
        "subprocess.Popen(['sleep', '900']); os.chdir('/'); random.random = lambda: 0.5"
    )
    process = subprocess.run(
        [sys.executable, "-m", "castform", "env", "certify", write(tmp_path, body), "--examples", "2", "--json"],
        env={**os.environ, "CASTFORM_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        timeout=120,
    )  # fmt: skip
    data = json.loads(process.stdout)
    assert (process.returncode, data["passed"]) == (0, True), data["findings"]
    assert [finding["code"] for finding in data["unchecked"]] == ["model"]
    assert "{" in process.stderr


def test_the_command_names_the_line_on_stdout_as_json_too_and_writes_no_certificate(tmp_path):
    process = subprocess.run(
        [
            sys.executable, "-m", "castform", "env", "certify", write(tmp_path, "os._exit(0)"),
            "--examples", "2", "--json",
        ],
        env={**os.environ, "CASTFORM_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        timeout=120,
    )  # fmt: skip
    data = json.loads(process.stdout)
    assert process.returncode == 1
    assert (data["passed"], data["certificate"]) == (False, None)
    assert [finding["code"] for finding in data["findings"]] == ["certify_crashed"]
    assert not (tmp_path / "home" / "certificates").exists()


def test_validate_ends_too_and_names_the_line(tmp_path):
    process = subprocess.run(
        [
            sys.executable, "-m", "castform", "validate", write(tmp_path, "while True: pass"),
            "--examples", "1", "--set", "rl.rollout_timeout_seconds=2",
        ],
        env={**os.environ, "CASTFORM_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        timeout=120,
    )  # fmt: skip
    assert (process.returncode, process.stdout) == (1, "")
    assert "error: the environment has held the event loop for 2 s: it stands at" in process.stderr
    assert f"compute_reward (doubles.py:{LINE})" in process.stderr
