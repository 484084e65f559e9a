"""A plugin whose environment cannot run here: the check says what is missing and tries nothing."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from castform.authoring.check import judge_not_ready
from castform.authoring.report import CheckReport, fails, passes
from castform.cli.main import main

SOURCE = """
from benchmax.envs import BaseEnv, Dataset, Example
from castform.errors import MissingError, UsageError


class Needy(BaseEnv):
    max_turns = 1

    async def create_dataset(self, split, base_dir, *, max_examples=None):
        prompt = [{"role": "user", "content": "?"}]
        return Dataset([Example(split, {"prompt_messages": prompt, "answer": "1"})])

    async def compute_reward(self, rollout):
        raise AssertionError("no rollout was to be run")

    async def check_ready(self):
        raise KIND("no engine at port 9", hint="start it")
"""


@pytest.mark.parametrize(
    ("kind", "status", "code"), [("MissingError", "unchecked", 3), ("UsageError", "fail", 1)]
)
def test_what_is_missing_is_told_and_no_rule_is_tried(kind, status, code, tmp_path, monkeypatch, capsys):
    (tmp_path / "needy.py").write_text(SOURCE.replace("KIND", kind))
    answer = tmp_path / "answer.json"
    words = ["-m", "castform.authoring.inside", "environment", answer, tmp_path / "needy.py"]
    subprocess.run([sys.executable, *words], check=True, capture_output=True, timeout=120)
    told = json.loads(answer.read_text())
    assert (told["train"], "rules" in told) == ({"examples": 1}, False)
    row = judge_not_ready("needy/default", told["not_ready"])
    assert (row.check, row.status, row.missing) == ("ready needy/default", status, code == 3)
    assert (row.found, row.hint) == ("no engine at port 9", "start it")

    report = CheckReport(distribution="needy", rows=[passes("install", ""), row], seconds=1.0)
    monkeypatch.setattr("castform.authoring.check.check_plugin", lambda *words, **options: report)
    assert main(["env", "check", str(tmp_path)]) == code
    assert "ready needy/default: start it" in capsys.readouterr().out


def test_a_row_that_failed_counts_more_than_what_is_missing(tmp_path, monkeypatch):
    missing = judge_not_ready("a/b", {"message": "gone", "hint": None, "traceback": [], "missing": True})
    report = CheckReport(distribution="a", rows=[missing, fails("metadata", "none")], seconds=1.0)
    monkeypatch.setattr("castform.authoring.check.check_plugin", lambda *words, **options: report)
    assert main(["env", "check", str(tmp_path)]) == 1
