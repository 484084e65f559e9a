"""Answers to held-out rows in whole finetuning runs: stored, shown, and without a trace in the weights."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from castform.cli.main import main
from castform.plugins.events import EvalEnded, StepEnded
from castform.runs import RunStore
from castform.sft.answers import LABELS, HeldOutAnswers
from castform_trainer.models import load_causal_lm
from castform_trainer.sft.run import resume_sft, train_sft
from castform_trainer.testing import make_tiny_model

sys.path.insert(0, str(Path(__file__).parent))
from sft_runs import make_config, write_rows
from train_runs import send_once

SCORE_WITH_PEFT = """
import json, sys, torch
from peft import PeftModel
from transformers import AutoModelForCausalLM
model, adapter, ids = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
loaded = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32), adapter)
with torch.no_grad():
    logp = loaded(torch.tensor([ids])).logits[0].log_softmax(-1)
assert not any(name.startswith(("castform", "benchmax")) for name in sys.modules)
print(json.dumps([float(logp[i, token]) for i, token in enumerate(ids[1:])]))
"""


def make_rows(count: int, tag: str) -> list[dict[str, object]]:
    """Rows whose answer is always the same word, which a tiny model learns in a few steps."""
    return [
        {
            "messages": [
                {"role": "user", "content": f"{tag}{n}"},
                {"role": "assistant", "content": "ok", "weight": 0},
                {"role": "user", "content": "again"},
                {"role": "assistant", "content": "yes"},
            ]
        }
        for n in range(count)
    ]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return make_tiny_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    home = tmp_path_factory.mktemp("home")
    os.environ["CASTFORM_HOME"], before = str(home), os.environ.get("CASTFORM_HOME")
    with RunStore.open(home) as store:
        yield store
    if before is None:
        del os.environ["CASTFORM_HOME"]
    else:
        os.environ["CASTFORM_HOME"] = before


@pytest.fixture(scope="module")
def configure(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    data = {
        "train": str(write_rows(folder / "train.jsonl", make_rows(20, "t"))),
        "eval": str(write_rows(folder / "eval.jsonl", make_rows(10, "h"))),
    }

    def make(method="lora", **sections):
        rate = {"lora": 0.02, "full": 0.004}[method]
        return make_config(
            model,
            data,
            run={"method": method, "epochs": 4},
            optimizer={"learning_rate": rate},
            eval={"every": 0, "answers": 8} | sections.pop("eval", {}),
            checkpoint={"every": 4},
            **sections,
        )

    return make


def train(config, store, **options):
    return asyncio.run(train_sft(config, store=store, **options))


def answers_of(result, store, when):
    (record,) = store.list_evals(result.run_id, label=LABELS[when])
    return HeldOutAnswers.from_dict(record.result).answers


def weights_of(result):
    (path,) = result.result.glob("*.safetensors")
    return path.read_bytes()


@pytest.fixture(scope="module", params=["lora", "full"])
def whole(request, configure, store):
    return train(configure(request.param), store)


def test_a_run_says_how_many_answers_were_right_before_and_after(whole, store):
    before, after = whole.answers_before, whole.answers_after
    assert (before.correct, after.correct, len(after.answers), after.rows) == (0, 8, 8, 10)
    assert {answer.expected for answer in after.answers} == {"yes"}
    assert {(answer.text, answer.cut, answer.tokens) for answer in after.answers} == {("yes", False, 4)}
    (found,) = whole.verdict.components
    assert (found.name, found.word, found.examples) == ("exact match", "better", 8)
    assert (found.before, found.after, found.low, found.high) == (0.0, 1.0, 1.0, 1.0)
    assert (whole.verdict.word, whole.verdict.judged.name) == ("better", "loss")
    rows = [answer.row for answer in answers_of(whole, store, "after")]
    assert rows == sorted(set(rows)) == [answer.row for answer in answers_of(whole, store, "before")]
    points = store.read_scalars(whole.run_id)["eval"]["eval/exact_match"]
    assert [(point.step, point.value) for point in points] == [(0, 0.0), (whole.steps, 1.0)]


def test_the_run_shows_them(whole, store, capsys):
    assert main(["runs", "status", whole.run_id]) == 0
    shown = capsys.readouterr().out
    assert "better: exact match 0.000 -> 1.000 (0 -> 8 of 8 answers)" in shown
    assert "\nenvironment" not in shown and "\nrollouts" not in shown  # finetuning has neither
    assert main(["runs", "answers", whole.run_id]) == 0
    table = capsys.readouterr().out
    assert table.count("right: yes") == 8 and "right: yes" not in table.splitlines()[0]
    assert "better: exact match" in table
    assert main(["runs", "answers", whole.run_id, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["before"]["correct"], document["after"]["correct"]) == (0, 8)
    assert len(document["rows"]) == 8
    assert document["rows"][0]["after"] == {"text": "yes", "correct": True, "cut": False}
    assert document["rows"][0]["before"]["correct"] is False
    assert main(["runs", "status", whole.run_id, "--json"]) == 0
    labels = [each["label"] for each in json.loads(capsys.readouterr().out)["evals"]]
    assert labels == ["before", "answers_before", "after", "answers_after", "verdict"]


def test_answering_leaves_no_trace_in_what_is_trained(whole, configure, store, capsys):
    plain = train(configure(whole.method, eval={"answers": 0}), store)
    assert weights_of(plain) == weights_of(whole)
    assert (plain.before.rows, plain.after.rows) == (whole.before.rows, whole.after.rows)
    assert (plain.answers_before, plain.answers_after, plain.verdict.components) == (None, None, ())
    assert main(["runs", "answers", plain.run_id]) == 2
    assert "has no answers" in capsys.readouterr().err


def test_a_resumed_run_has_the_answers_from_before_its_stop(whole, configure, store):
    config = configure(whole.method)
    stop = send_once(signal.SIGTERM, lambda event: isinstance(event, StepEnded) and event.step == 6)
    stopped = train(config, store, listeners=[stop])
    assert stopped.stopped_by == "signal" and stopped.verdict is None and stopped.answers_after is None
    resumed = asyncio.run(resume_sft(stopped.run_id, store=store))
    assert answers_of(resumed, store, "before") == answers_of(whole, store, "before")
    assert resumed.answers_after.answers == whole.answers_after.answers
    assert resumed.verdict == whole.verdict
    assert weights_of(resumed) == weights_of(whole)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_stop_while_answering_leaves_it_to_the_resumed_run(when, configure, store):
    config = configure()
    last = 0 if when == "before" else 16
    stop = send_once(
        signal.SIGTERM,
        lambda event: isinstance(event, EvalEnded) and "eval/loss" in event.scalars and event.step == last,
    )
    stopped = train(config, store, listeners=[stop])
    assert (stopped.status, stopped.stopped_by, stopped.steps) == ("stopped", "signal", last)
    assert stopped.verdict is None
    assert store.list_evals(stopped.run_id, label=LABELS[when]) == []
    resumed = asyncio.run(resume_sft(stopped.run_id, store=store))
    assert (resumed.status, resumed.steps) == ("finished", 16)
    assert (resumed.answers_before.correct, resumed.answers_after.correct) == (0, 8)
    assert len(store.list_evals(resumed.run_id, label="verdict")) == 1


def test_the_command_prints_both_and_has_them_in_its_json(configure, model, tmp_path, store, capsys):
    data = configure().data
    words = ["sft", "train", str(data.train), "--eval", str(data.eval), "-m", str(model), "--steps", "2"]
    assert main([*words, "--set", "eval.answers=3", "--output", str(tmp_path / "out")]) == 0
    shown = capsys.readouterr()
    assert "better: loss" in shown.out and "exact match 0.000 ->" in shown.out and "of 3 answers" in shown.out
    assert "castform runs answers" in shown.err
    canary = json.loads((tmp_path / "out" / "canary.json").read_text())
    assert len(canary["ids"]) == 64 and len(canary["logprobs"]) == 63
    assert main([*words, "--set", "eval.answers=3", "--json"]) == 0
    answers = json.loads(capsys.readouterr().out)["answers"]
    assert answers["before"]["answer_count"] == answers["after"]["answer_count"] == 3
    assert main([*words, "--dry-run"]) == 0
    assert "10 rows, 10 of them answered" in capsys.readouterr().out


def test_plain_libraries_reproduce_the_canary_in_a_process_of_their_own(whole, model):
    canary = json.loads((whole.run_dir / "canary.json").read_text())
    assert canary["temperature"] == 1.0
    if whole.method == "full":
        loaded = load_causal_lm(whole.result, device="cpu", dtype="float32")
        with torch.no_grad():
            logp = loaded(torch.tensor([canary["ids"]])).logits[0].log_softmax(-1)
        found = [float(logp[i, token]) for i, token in enumerate(canary["ids"][1:])]
    else:
        words = [SCORE_WITH_PEFT, str(model), str(whole.result), json.dumps(canary["ids"])]
        ran = subprocess.run(
            [sys.executable, "-c", *words], capture_output=True, text=True, check=True, env={**os.environ}
        )
        found = json.loads(ran.stdout)
    assert found == pytest.approx(canary["logprobs"], abs=1e-4)
    base = load_causal_lm(model, device="cpu", dtype="float32")
    with torch.no_grad():
        logp = base(torch.tensor([canary["ids"]])).logits[0].log_softmax(-1)
    moved = [
        abs(float(logp[i, token]) - known)
        for (i, token), known in zip(enumerate(canary["ids"][1:]), canary["logprobs"], strict=True)
    ]
    assert max(moved) > 0.5  # the adapter did something, so loading it is what reproduces
