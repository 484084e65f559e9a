"""A short run on real weights: the model gets better on held-out sums, and peft alone reproduces it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from castform.home import castform_home

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]
CONFIG = Path(__file__).parents[2] / "examples" / "arith.toml"
STEPS = 8

SCORE_WITH_PEFT = """
import json, sys
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM

model, adapter, ids = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
base = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
loaded = PeftModel.from_pretrained(base, adapter)
with torch.no_grad():
    logprobs = loaded(torch.tensor([ids])).logits[0].log_softmax(-1)
print(json.dumps([float(logprobs[i, token]) for i, token in enumerate(ids[1:])]))
"""


@pytest.fixture(scope="module")
def weights() -> Path:
    folder = castform_home() / "models" / "smollm2-135m"
    if not folder.exists():
        pytest.skip("no weights: castform model pull smollm2-135m")
    return folder


@pytest.fixture(scope="module")
def result(weights: Path, tmp_path_factory: pytest.TempPathFactory) -> dict:
    home = tmp_path_factory.mktemp("home")
    (home / "models").symlink_to(weights.parent)
    command = [sys.executable, "-m", "castform", "train", "--config", str(CONFIG), "--json"]
    ran = subprocess.run(
        [*command, "--steps", str(STEPS)],
        env={**os.environ, "CASTFORM_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def test_correctness_on_held_out_sums_rises_with_its_interval_above_zero(result: dict) -> None:
    components = {row["name"]: row for row in result["verdict"]["components"]}
    correct = components["correct"]
    assert 0 < correct["low"] <= correct["difference"] <= correct["high"]
    assert correct["word"] == "better"


def test_peft_in_a_fresh_process_reproduces_the_canary(result: dict, weights: Path) -> None:
    run_dir = Path(result["run_dir"])
    canary = json.loads((run_dir / "canary.json").read_text())
    ran = subprocess.run(
        [
            sys.executable,
            "-c",
            SCORE_WITH_PEFT,
            str(weights),
            str(run_dir / "adapter"),
            json.dumps(canary["ids"]),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(ran.stdout) == pytest.approx(canary["logprobs"], abs=1e-3)
