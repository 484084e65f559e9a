"""Finetuning runs that fail on the way: they say why, and keep their last checkpoint."""

from __future__ import annotations

import argparse
import asyncio
import re
import resource
import shutil
import signal
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM

from castform.cli import sft_train
from castform.cli.main import main
from castform.errors import RunFailedError, UsageError
from castform.plugins.events import CheckpointSaved, StepEnded
from castform.runs import RunStore
from castform_trainer.learning.checkpoint import list_checkpoints
from castform_trainer.sft.run import SftResult, resume_sft, train_sft
from castform_trainer.testing import make_tiny_adapter, make_tiny_model

sys.path.insert(0, str(Path(__file__).parent))
from sft_runs import make_config, make_rows, write_files, write_rows


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return make_tiny_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_files(tmp_path_factory.mktemp("data"))


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("CASTFORM_HOME", str(tmp_path / "home"))
    with RunStore.open(tmp_path / "home") as store:
        yield store


def train(config, store, **options):
    return asyncio.run(train_sft(config, store=store, **options))


def checkpoints_of(store):
    (record,) = store.list_runs()
    return record.status, [c.step for c in list_checkpoints(record.run_dir / "checkpoints")]


def test_a_run_that_diverges_fails_with_its_last_checkpoint_and_whole_weights(model, data, store):
    config = make_config(
        model,
        data,
        model={"id": str(model), "dtype": "float16"},
        run={"epochs": 20},
        optimizer={"learning_rate": 1.0, "decay": "constant", "max_grad_norm": 1e9},
        eval={"every": 0},
        checkpoint={"every": 1},
    )
    with pytest.raises(RunFailedError, match=r"the (loss|gradient norm) is (nan|inf)") as caught:
        train(config, store)
    assert "optimizer.learning_rate" in caught.value.hint and "start a new one" in caught.value.hint
    status, steps = checkpoints_of(store)
    assert status == "failed" and steps
    (record,) = store.list_runs()
    last = list_checkpoints(record.run_dir / "checkpoints")[-1]
    weights = load_file(last.adapter / "adapter_model.safetensors")
    assert all(bool(weight.isfinite().all()) for weight in weights.values())


def test_a_full_disk_at_a_checkpoint_ends_the_run_which_then_goes_on(model, data, store):
    config = make_config(
        model,
        data,
        run={"method": "full", "epochs": 1},
        optimizer={"learning_rate": 0.002},
        eval={"every": 0},
        checkpoint={"every": 1},
    )
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill_disk(run, event):
        if isinstance(event, CheckpointSaved) and event.step == 2:
            resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, limits[1]))

    try:
        with pytest.raises(RunFailedError, match=r"cannot write the checkpoint .*step-000003") as caught:
            train(config, store, listeners=[fill_disk])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "castform sft train --resume" in caught.value.hint
    assert checkpoints_of(store)[0] == "failed" and checkpoints_of(store)[1][-1] == 2
    (record,) = store.list_runs()
    assert not list((record.run_dir / "checkpoints").glob(".*"))
    resumed = asyncio.run(resume_sft(record.run_id, store=store))
    straight = train(config, store)
    assert (resumed.status, resumed.steps) == ("finished", 4)
    assert (resumed.result / "model.safetensors").read_bytes() == (
        straight.result / "model.safetensors"
    ).read_bytes()


def test_one_row_to_train_on_does_not_hide_that_held_out_rows_cannot_be_packed(tmp_path, model, data, store):
    folder = tmp_path / "m"
    shutil.copytree(model, folder)
    shape = {
        "vocab_size": 260,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 512,
        "layer_types": ["conv", "full_attention"],
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        reads_on = AutoModelForCausalLM.from_config(AutoConfig.for_model("lfm2", **shape))
    with torch.no_grad():
        for weight in reads_on.parameters():
            weight.mul_(3.0)
    reads_on.save_pretrained(folder)
    one = {**data, "train": str(write_rows(tmp_path / "one.jsonl", make_rows(1)))}
    with pytest.raises(UsageError, match="does not keep packed rows apart"):
        train(make_config(folder, one), store)


@pytest.mark.parametrize("packing", [True, False])
def test_a_model_whose_weights_are_no_numbers_is_refused(tmp_path, data, store, packing):
    folder = make_tiny_model(tmp_path / "broken")
    weights = load_file(folder / "model.safetensors")
    weights["model.norm.weight"].fill_(float("nan"))
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    config = make_config(folder, data, batch={"packing": packing})
    with pytest.raises((UsageError, RunFailedError), match=r"no number|held-out loss is nan after 0 steps"):
        train(config, store)


def test_bad_files_are_one_clear_error_of_the_command(tmp_path, model, store, capsys):
    rows = write_rows(tmp_path / "rows.jsonl", make_rows(3))
    line = rows.read_bytes()
    bad = {
        "gzip.jsonl": (b"\x1f\x8b\x08rest", "gzip-compressed; unpack it first"),
        "cut.jsonl": (
            line + '{"messages": "é'.encode()[:-1],
            "line 4, row 3, $: the file ends in the middle",
        ),
        "array.jsonl": (
            b"[" + line.splitlines()[0] + b"]",
            "`castform sft convert` reads a file that is one",
        ),
        "empty.jsonl": (b"", "$: there is no row"),
    }
    for name, (content, words) in bad.items():
        (tmp_path / name).write_bytes(content)
        for files in ([tmp_path / name], [rows, "--eval", tmp_path / name]):
            assert main(["sft", "train", *map(str, files), "-m", str(model)]) == 2
            error = capsys.readouterr().err
            assert words in error and error.count(name) == 2  # with that in the hint
    (tmp_path / "folder").mkdir()
    for path, words in (
        (tmp_path / "folder", "this is a folder"),
        (Path("/dev/zero"), "this is a pipe or a device"),
    ):
        assert main(["sft", "train", str(path), "-m", str(model)]) == 2
        assert f"cannot read {path}: {words}" in capsys.readouterr().err
    assert store.list_runs() == []


def test_a_stop_before_the_first_measurement_is_not_taken_for_a_lack_of_held_out_rows(tmp_path, capsys):
    result = SftResult(
        run_id="abc",
        run_dir=tmp_path,
        status="stopped",
        stopped_by="signal",
        steps=0,
        train={"rows": 1, "sampled_rows": None},
        trained_tokens=0,
        train_seconds=0.0,
        method="lora",
        result=tmp_path / "adapter",
        before=None,
        after=None,
        answers_before=None,
        answers_after=None,
        verdict=None,
    )
    options = argparse.Namespace(output=None, json=False)
    assert sft_train._finish(result, options) == 130
    shown = capsys.readouterr()
    assert "held-out" not in shown.out + shown.err and "--resume abc` goes on" in shown.err
    assert sft_train._finish(replace(result, status="finished", stopped_by=None), options) == 0
    assert "no held-out rows (--eval FILE), so no verdict" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["train"], ["sft", "train"]])
def test_a_resume_of_nothing_starts_no_new_run(command, model, data, store, capsys):
    assert main([*command, "--resume", ""]) == 2
    assert "no run ''" in capsys.readouterr().err
    assert main([*command, data["train"], "-m", str(model), "--resume", ""]) == 2
    assert "--resume goes on with the settings of the run" in capsys.readouterr().err
    assert store.list_runs() == []


def test_a_resume_that_cannot_be_says_why_and_leaves_the_run_as_it_is(model, data, store, capsys):
    def stop(run, event):
        if isinstance(event, StepEnded) and event.step == 2:
            signal.raise_signal(signal.SIGTERM)

    config = make_config(model, data, run={"epochs": 3}, eval={"every": 0, "answers": 0})
    stopped = train(config, store, listeners=[stop])
    assert stopped.steps >= 2
    before = store.get_run(stopped.run_id)
    capsys.readouterr()
    resume = ["sft", "train", "--resume", stopped.run_id]
    assert main([*resume, "--steps", "1"]) == 2
    error = capsys.readouterr().err
    assert f"has taken {stopped.steps} steps already, and is to end after 1" in error
    assert f"--resume {stopped.run_id} --steps {stopped.steps}" in error
    assert main([*resume, "--epochs", "0"]) == 2
    assert "1 wrong setting:\n  run.epochs = 0: Input should be greater" in capsys.readouterr().err
    (checkpoint,) = list_checkpoints(stopped.run_dir / "checkpoints")
    tensors = checkpoint.path / "trainer.pt"
    tensors.write_bytes(bytes(tensors.stat().st_size))  # whole by its size
    assert main(resume) == 1
    error = capsys.readouterr().err
    assert f"{tensors} is damaged: " in error and f"delete {checkpoint.path}" in error
    after = store.get_run(stopped.run_id)
    assert (after.status, after.config) == (before.status, before.config)


def test_a_base_that_does_not_fit_is_refused_before_a_run_exists(tmp_path, model, data, store):
    silent = make_tiny_model(tmp_path / "silent", chat_template=None)
    with pytest.raises(UsageError, match="has no chat template") as caught:
        train(make_config(silent, data), store)
    assert "instruct variant" in caught.value.hint
    assert store.list_runs() == []


@pytest.mark.parametrize(
    ("size", "reason"),
    [
        (
            {"width": 32},
            r"its model\.layers\.0\.\w+\.\w+ is for \d+ values in and \d+ out, that of the model has \d+",
        ),
        ({"layers": 3}, r"it has a layer model\.layers\.2\.\S+, the model has none"),
    ],
    ids=["width", "layers"],
)
def test_an_adapter_of_another_base_is_refused_by_a_dry_run_and_by_the_check(
    tmp_path, model, data, store, capsys, size, reason
):
    other = make_tiny_model(tmp_path / "other", **size)
    adapter = make_tiny_adapter(other, tmp_path / "adapter")
    words = [data["train"], "-m", str(model), "--set", f"model.adapter={adapter}"]
    errors = []
    capsys.readouterr()
    for command in (["check", *words], ["train", *words, "--dry-run"], ["train", *words]):
        assert main(["sft", *command]) == 2
        errors.append(capsys.readouterr().err)
    assert errors[0] == errors[1] == errors[2]
    assert re.search(f"the adapter in {adapter} does not fit this model: {reason}", errors[0])
    assert "adapter_config.json names it" in errors[0]
    assert store.list_runs() == []
