"""The process that checks an environment tells what it came to, however it ends."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from castform.authoring.check import judge_rules

SOURCE = """
import os
import threading

from benchmax.envs import BaseEnv, Dataset, Example


class Sums(BaseEnv):
    max_turns = 1

    def __init__(self):
        super().__init__()
        threading.Thread(target=threading.Event().wait).start()  # never ends

    async def create_dataset(self, split, base_dir, *, max_examples=None):
        {data}
        return Dataset([Example(split, {{"prompt_messages": [{{"role": "user", "content": "1 + 1?"}}], "answer": "2"}})])

    async def compute_reward(self, rollout):
        os._exit(9)
"""


def examine(folder: Path, data: str) -> tuple[int, dict]:
    """Return the exit code and the answer of the process."""
    (folder / "sums.py").write_text(SOURCE.format(data=data))
    words = ["-m", "castform.authoring.inside", "environment", folder / "answer.json", folder / "sums.py"]
    done = subprocess.run([sys.executable, *words], capture_output=True, timeout=120)
    return done.returncode, json.loads((folder / "answer.json").read_text())


def test_a_rule_that_the_process_ended_over_is_named_and_those_before_it_are_told(tmp_path):
    code, told = examine(tmp_path, "pass")
    assert code == 9
    assert (told["train"], told["eval"]) == ({"examples": 1}, {"examples": 1})
    assert [(rule["rule"], rule["state"]) for rule in told["rules"]] == [
        ("loads", "held"),
        ("stable_identity", "held"),
        ("fixed_order", "held"),
        ("max_examples", "held"),
    ]
    row = judge_rules("x/y", told, "ended with exit code 9")
    assert (row.check, row.status) == ("conforms x/y", "fail")
    assert row.found == (
        "the process that checked the rules ended with exit code 9, at the rule same_first_observation"
    )


def test_a_thread_that_never_ends_holds_up_no_check(tmp_path):
    code, told = examine(tmp_path, "raise KeyError('no data')")
    assert code == 0
    assert "no data" in told["train"]["error"]["message"] and "rules" not in told
