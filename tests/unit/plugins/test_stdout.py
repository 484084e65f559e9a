"""stdout is data: what an environment prints, itself or through a process, lands on stderr."""

from __future__ import annotations

import json
import subprocess
import sys

ENVIRONMENT = """
import os
import sys

from benchmax.envs import BaseEnv, Dataset, Example

print("at import")


class Noisy(BaseEnv):
    max_turns = 1

    async def create_dataset(self, split, base_dir, *, max_examples=None):
        print("in data")
        message = {"role": "user", "content": "hi"}
        return Dataset([Example(id=split, payload={"prompt_messages": [message]})])

    async def compute_reward(self, rollout):
        os.write(1, b"raw\\n")
        os.system("echo from a process")
        return {"r": 1.0}
"""


def castform(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "castform", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def test_nothing_that_an_environment_prints_gets_into_the_data(tmp_path) -> None:
    path = tmp_path / "noisy.py"
    path.write_text(ENVIRONMENT)
    done = castform("env", "show", str(path), "--json")
    assert json.loads(done.stdout)["seen_rewards"] == {"r": 1.0}
    assert all(line in done.stderr for line in ("at import", "in data", "raw", "from a process"))


def test_without_a_stdout_a_command_still_ends_well(tmp_path) -> None:
    command = f'"{sys.executable}" -m castform env list --json >&-'
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0 and "Traceback" not in done.stderr


def test_a_reader_that_leaves_early_is_no_error() -> None:
    command = f'"{sys.executable}" -m castform train --settings | true; exit "${{PIPESTATUS[0]}}"'
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode in (0, 141) and done.stderr == ""
