"""The example of docs/finetuning.md on real weights: the model gets better, and peft alone gives its answers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmax.sft import SftDataset
from castform.home import castform_home
from castform.runs import RunStore

pytestmark = [pytest.mark.real, pytest.mark.timeout(1200)]
EXAMPLE = Path(__file__).parents[2] / "examples" / "sft" / "pii_masking"
HELD_OUT = 60

ANSWER_WITH_PEFT = """
import json, sys
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

model, adapter, messages = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
tokenizer = AutoTokenizer.from_pretrained(model)
base = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
loaded = PeftModel.from_pretrained(base, adapter)
prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt", return_dict=True)
ids = loaded.generate(**prompt, max_new_tokens=64, do_sample=False)
print(json.dumps(tokenizer.decode(ids[0, prompt["input_ids"].shape[1]:], skip_special_tokens=True)))
"""


@pytest.fixture(scope="module")
def weights() -> Path:
    folder = castform_home() / "models" / "smollm2-135m"
    if not folder.exists():
        pytest.skip("no weights: castform model pull smollm2-135m")
    return folder


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    script = [sys.executable, str(EXAMPLE / "make_data.py"), str(folder), "--held-out", str(HELD_OUT)]
    subprocess.run(script, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def result(weights: Path, data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    home = tmp_path_factory.mktemp("home")
    (home / "models").symlink_to(weights.parent)
    command = [sys.executable, "-m", "castform", "sft", "train", str(data / "train.jsonl"), "--json"]
    ran = subprocess.run(
        [*command, "--eval", str(data / "held_out.jsonl"), "--config", str(EXAMPLE / "finetune.toml")],
        env={**os.environ, "CASTFORM_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def test_the_loss_on_held_out_rows_falls_and_exact_match_rises_with_its_interval_above_zero(result) -> None:
    verdict = result["verdict"]
    assert verdict["word"] == "better"
    assert verdict["score"]["high"] < 0
    (found,) = verdict["components"]
    assert (found["name"], found["word"], found["examples"]) == ("exact match", "better", HELD_OUT)
    assert 0 < found["low"] <= found["difference"] <= found["high"]
    assert found["before"] < 0.05
    assert found["after"] > 0.5


def test_peft_in_a_fresh_process_gives_the_answer_that_the_run_measured(result, weights, data) -> None:
    run_dir = Path(result["run_dir"])
    with RunStore.open(run_dir.parents[1]) as store:
        (record,) = store.list_evals(result["run_id"], label="answers_after")
    answers = [answer for answer in record.result["answers"] if answer["correct"]]
    answer = max(answers, key=lambda answer: answer["expected"].count("["))
    *messages, last = SftDataset.from_jsonl(data / "held_out.jsonl")[answer["row"]]["messages"]
    assert last["content"].count("[") >= 2
    ran = subprocess.run(
        [sys.executable, "-c", ANSWER_WITH_PEFT, str(weights), result["adapter"], json.dumps(messages)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(ran.stdout) == last["content"]
