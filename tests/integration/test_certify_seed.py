"""Environments as the published examples write them run unchanged under validate and certify."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"
ENVIRONMENT = """
import re
from pathlib import Path

from benchmax.envs import (
    BaseEnv, BaseRollout, DatasetSplit, Example, JsonlDataset,
    canonical_example_id,
)
from benchmax.rewards import extract_completion_text

class MyEnv(BaseEnv):
    max_turns = 1

    async def create_dataset(
        self, split: DatasetSplit, base_dir: Path, *, max_examples: int | None = None
    ):
        return JsonlDataset(
            base_dir / f"{split}.jsonl",
            row_to_example=self._example,
            max_examples=max_examples,
        )

    def _example(self, row: dict) -> Example:
        payload = {
            "prompt_messages": [
                {"role": "system", "content": "Put the answer in <answer> tags."},
                {"role": "user", "content": row["prompt"]},
            ],
            "ground_truth": row["ground_truth"],
        }
        return Example(id=canonical_example_id(payload), payload=payload)

    async def compute_reward(self, rollout: BaseRollout) -> dict[str, float]:
        text = extract_completion_text(rollout.messages)
        match = re.search(r"<answer>(.*?)</answer>", text, re.DOTALL)
        answer = match.group(1).strip().lower() if match else ""
        expected = str(rollout.example_args.get("ground_truth", "")).strip().lower()
        return {"correct": 1.0 if answer == expected else 0.0}
"""
ROWS = [
    ("Which gas do plants take in?", "carbon dioxide"),
    ("How many legs has a spider?", "8"),
    ("What is 6 times 7?", "42"),
    ("What is the capital of Peru?", "Lima"),
    ("Which planet has the great red spot?", "Jupiter"),
    ("What freezes at 0 degrees?", "water"),
    ("How many strings has a violin?", "4"),
    ("Which bird cannot fly and lives in Antarctica?", "penguin"),
    ("What do bees make?", "honey"),
    ("Which metal is liquid at room temperature?", "mercury"),
]


def write_rows(path: Path, rows: list[tuple[str, str]]) -> None:
    path.write_text("".join(json.dumps({"prompt": p, "ground_truth": g}) + "\n" for p, g in rows))


@pytest.fixture
def my_env(tmp_path: Path) -> Path:
    (tmp_path / "my_env.py").write_text(ENVIRONMENT)
    write_rows(tmp_path / "train.jsonl", ROWS[:7])
    write_rows(tmp_path / "eval.jsonl", ROWS[7:])
    return tmp_path / "my_env.py"


@pytest.fixture
def shout(tmp_path: Path) -> Path:
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    (tmp_path / "shout.py").write_text(code)
    return tmp_path / "shout.py"


def castform(home: Path, *words: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "castform", *words],
        env={**os.environ, "CASTFORM_HOME": str(home / "home")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def faults(data: dict) -> list[str]:
    return [finding["code"] for finding in data["findings"] if finding["level"] == "fault"]


@pytest.mark.parametrize("name", ["my_env", "shout"])
def test_an_environment_as_published_passes_validate(name, request, tmp_path):
    path = request.getfixturevalue(name)
    code, out, err = castform(tmp_path, "validate", str(path), "--json")
    assert code == 0, out + err
    assert faults(json.loads(out)) == []


@pytest.mark.parametrize(("name", "n"), [("my_env", 7), ("shout", 6)])
def test_an_environment_as_published_is_certified(name, n, request, tmp_path):
    path = request.getfixturevalue(name)
    code, out, err = castform(tmp_path, "env", "certify", str(path), "--json")
    assert code == 0, out + err
    data = json.loads(out)
    assert (data["passed"], faults(data), data["examples"]) == (True, [], n)
    assert data["rates"]["false_pass_ceiling"]["share"] == 0.0
    assert data["rates"]["false_pass_ceiling"]["n"] == n
    certificate = json.loads(Path(data["certificate"]).read_text())
    assert certificate["environment"]["content_sha256"] == data["environment"]["content_sha256"]
    assert set(certificate["environment"]["datasets"]) == {"train", "eval"}
