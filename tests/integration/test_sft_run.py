"""Whole finetuning runs of a tiny model: what they leave behind, how they stop, and how they go on."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
from datetime import datetime
from pathlib import Path

import pytest
import torch

from benchmax.sft import SftDataset
from castform.cli.main import main
from castform.config import RunConfig
from castform.errors import UsageError
from castform.plugins.events import StepEnded
from castform.runs import RunStore
from castform.sft.config import SftConfig
from castform_trainer.models import load_causal_lm
from castform_trainer.sft.masking import load_turn_template, mask_row
from castform_trainer.sft.preflight import describe_plan, prepare
from castform_trainer.sft.run import resume_sft, train_sft
from castform_trainer.testing import CHATML_TEMPLATE, make_tiny_model

sys.path.insert(0, str(Path(__file__).parent))
import train_runs
from sft_runs import make_config, make_rows, write_files, write_rows


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return make_tiny_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_files(tmp_path_factory.mktemp("data"))


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


def train(config, store, **options):
    return asyncio.run(train_sft(config, store=store, **options))


def resume(run_id, store, **options):
    return asyncio.run(resume_sft(run_id, store=store, **options))


def at_step(step, action):
    return lambda run, event: (
        action(run.run_id) if isinstance(event, StepEnded) and event.step == step else None
    )


@pytest.fixture(scope="module")
def lora_run(model, data, store):
    config = make_config(model, data)
    return config, train(config, store)


@pytest.fixture(scope="module")
def full_run(model, data, store):
    config = make_config(model, data, run={"method": "full"}, optimizer={"learning_rate": 0.002})
    return config, train(config, store)


@pytest.fixture(params=["lora", "full"])
def straight(request):
    return request.getfixturevalue(f"{request.param}_run")


def weights_of(result):
    return (result.result / f"{'adapter_' if result.method == 'lora' else ''}model.safetensors").read_bytes()


def plain_loss(loaded, model, path):
    """Token-weighted mean of -log p over a file's trained tokens, by transformers alone."""
    template = load_turn_template(model)
    losses = []
    for row in SftDataset.from_jsonl(path):
        for sample in mask_row(template, row):
            with torch.no_grad():
                logp = loaded(torch.tensor([sample.ids])).logits[0].log_softmax(-1)
            losses += [-float(logp[t - 1, i]) for t, i in enumerate(sample.ids) if sample.trained[t]]
    return sum(losses) / len(losses)


def test_the_result_is_a_plain_folder_with_the_held_out_loss_that_the_run_measured(straight, model, data):
    config, result = straight
    base = load_causal_lm(model, dtype="float32", device="cpu")
    assert plain_loss(base, model, data["eval"]) == pytest.approx(result.before.loss, abs=1e-4)
    if config.run.method == "lora":
        from peft import PeftModel

        assert result.result == result.run_dir / "adapter"
        loaded = PeftModel.from_pretrained(base, str(result.result))
    else:
        assert result.result == result.run_dir / "model"
        loaded = load_causal_lm(result.result, dtype="float32", device="cpu")
        for name in ("tokenizer.json", "chat_template.jinja"):
            assert (result.result / name).read_bytes() == (model / name).read_bytes()
    assert plain_loss(loaded, model, data["eval"]) == pytest.approx(result.after.loss, abs=1e-4)
    assert result.after.loss < result.before.loss - 1
    assert result.verdict.word == "better"


def test_the_store_has_both_curves_the_measurements_and_the_verdict(straight, store, capsys):
    _, result = straight
    record = store.get_run(result.run_id)
    assert (record.kind, record.status) == ("sft", "finished")
    scalars = store.read_scalars(result.run_id)
    assert [point.step for point in scalars["train"]["train/loss"]] == list(range(1, 9))
    assert [point.step for point in scalars["eval"]["eval/loss"]] == [0, 3, 6, 8]
    assert scalars["eval"]["eval/loss"][-1].value == pytest.approx(result.after.loss)
    labels = [(e.label, e.step) for e in store.list_evals(result.run_id)]
    assert labels == [
        ("before", 0),
        ("answers_before", 0),
        ("step", 3),
        ("step", 6),
        ("after", 8),
        ("answers_after", 8),
        ("verdict", 8),
    ]
    trained = sum(point.value for point in scalars["train"]["tokens/trained"])
    assert trained == result.trained_tokens == scalars["train"]["tokens/trained_so_far"][-1].value
    assert main(["runs", "scalars", result.run_id]) == 0
    shown = capsys.readouterr().out
    assert "train/loss" in shown and "eval/loss" in shown
    assert main(["runs", "status", result.run_id]) == 0
    shown = capsys.readouterr().out
    assert "better: loss" in shown and "8 of 8" in shown


def test_a_stopped_run_goes_on_to_the_very_same_weights(straight, store):
    config, expected = straight
    stopped = train(config, store, listeners=[at_step(3, lambda _: signal.raise_signal(signal.SIGTERM))])
    assert (stopped.status, stopped.stopped_by, stopped.verdict) == ("stopped", "signal", None)
    assert 3 <= stopped.steps <= 4
    assert store.get_run(stopped.run_id).status == "stopped"
    resumed = resume(stopped.run_id, store)
    assert (resumed.status, resumed.steps, resumed.trained_tokens) == ("finished", 8, expected.trained_tokens)
    assert weights_of(resumed) == weights_of(expected)
    assert resumed.after.rows == expected.after.rows
    assert [e.label for e in store.list_evals(stopped.run_id)].count("before") == 1


def test_a_run_that_is_asked_to_stop_stops(model, data, store):
    config = make_config(model, data, run={"epochs": 500}, eval={"every": 0}, checkpoint={"every": 500})
    result = train(config, store, listeners=[at_step(1, store.request_stop)])
    assert (result.status, result.stopped_by) == ("stopped", "requested")
    assert result.steps < 2000


def test_a_signal_ends_a_run_with_a_checkpoint_of_its_last_whole_step(model, data, store):
    config = make_config(model, data, run={"epochs": 50})
    stop = at_step(2, lambda run_id: signal.raise_signal(signal.SIGINT))
    result = train(config, store, listeners=[stop])
    assert (result.status, result.stopped_by) == ("stopped", "signal")
    assert 2 <= result.steps <= 4
    assert (result.run_dir / "checkpoints" / f"step-{result.steps:06d}" / "state.json").is_file()
    assert (result.result / "adapter_model.safetensors").is_file()


def test_time_ends_training_and_the_verdict_follows(model, data, store):
    config = make_config(model, data, run={"epochs": 50, "max_seconds": 1e-6}, eval={"every": 0})
    result = train(config, store)
    assert (result.status, result.stopped_by, result.steps) == ("finished", "time", 1)
    assert result.verdict is not None


def test_a_finished_run_goes_on_only_for_more_steps(model, data, store):
    config = make_config(model, data, run={"steps": 2}, eval={"every": 0}, optimizer={"decay": "constant"})
    first = train(config, store)
    with pytest.raises(UsageError, match="has finished its 2 steps") as caught:
        resume(first.run_id, store)
    assert f"--resume {first.run_id} --steps 4" in caught.value.hint

    def more(old: SftConfig) -> SftConfig:
        return SftConfig.model_validate({**old.model_dump(), "run": {**old.run.model_dump(), "steps": 3}})

    longer = resume(first.run_id, store, change=more)
    assert longer.steps == 3
    straight = train(
        make_config(model, data, run={"steps": 3}, eval={"every": 0}, optimizer={"decay": "constant"}), store
    )
    assert weights_of(longer) == weights_of(straight)


def test_a_run_goes_on_only_with_the_inputs_that_it_was_started_with(tmp_path, model, store):
    data = write_files(tmp_path)
    folder = tmp_path / "model"
    shutil.copytree(model, folder)
    config = make_config(folder, data, run={"epochs": 9}, eval={"every": 0})
    run_id = train(config, store, listeners=[at_step(1, lambda _: signal.raise_signal(signal.SIGINT))]).run_id
    kept = Path(data["train"]).read_text()
    Path(data["train"]).write_text(kept.replace(" ", "  ", 1))  # between two keys: the same rows
    rows = make_rows(21)
    write_rows(Path(data["train"]), rows)
    template = folder / "chat_template.jinja"
    template.write_text(template.read_text().replace("Functions you may call", "You may call"))
    with pytest.raises(UsageError) as caught:
        resume(run_id, store)
    text = str(caught.value)
    assert "20 rows before, 21 now" in text and "the chat template" in text
    assert "eval data" not in text and "the masks" not in text
    write_rows(Path(data["train"]), [*make_rows(19), {**make_rows(20)[19], "metadata": {"a": 1}}])
    with pytest.raises(UsageError, match="20 rows as before, but with another content"):
        resume(run_id, store)


def test_the_same_rows_in_another_spelling_are_the_same_data(tmp_path, model, store):
    data = write_files(tmp_path)
    config = make_config(model, data, run={"epochs": 9, "steps": 3}, eval={"every": 0})
    run_id = train(config, store, listeners=[at_step(1, lambda _: signal.raise_signal(signal.SIGINT))]).run_id
    Path(data["train"]).write_text(
        "\n".join(json.dumps(row, indent=None, separators=(", ", " : ")) for row in make_rows(20))
    )
    assert resume(run_id, store).steps == 3


def test_a_run_is_resumed_on_the_day_that_it_was_started_on(tmp_path, data, store):
    dated = "<|im_start|>system\n{{ strftime_now('%d %b %Y %H:%M:%S') }}<|im_end|>\n" + CHATML_TEMPLATE
    model = make_tiny_model(tmp_path, chat_template=dated)
    config = make_config(model, data, run={"epochs": 1}, eval={"every": 0})
    day = datetime(2020, 2, 29, 23, 59, 59)
    stop = at_step(2, lambda _: signal.raise_signal(signal.SIGINT))
    stopped = train(config, store, listeners=[stop], now=day)
    assert stopped.status == "stopped"
    (inputs,) = store.list_events(stopped.run_id, kind="inputs")
    assert inputs.data["rendered_at"] == "2020-02-29T23:59:59"
    resumed = resume(stopped.run_id, store)
    assert resumed.status == "finished"
    assert weights_of(resumed) == weights_of(train(config, store, now=day))
    today, then = (prepare(config, now=now).inputs["files"]["train"] for now in (None, day))
    assert today["sha256"] == then["sha256"] and today["samples_sha256"] != then["samples_sha256"]


def test_training_starts_from_an_adapter_where_the_run_before_ended(lora_run, model, data, store):
    _, first = lora_run
    second = train(
        make_config(model, data, model={"id": str(model), "adapter": str(first.result)}, run={"steps": 1}),
        store,
    )
    assert second.before.loss == pytest.approx(first.after.loss, abs=1e-6)
    assert weights_of(second) != weights_of(first)


def test_reinforcement_learning_starts_from_the_finetuned_adapter(lora_run, model, tmp_path, store):
    from safetensors.torch import load_file

    from castform_trainer.rl.run import train as train_rl

    _, first = lora_run
    rl = train_runs.make_config(
        train_runs.write_environment(tmp_path),
        model,
        model={"adapter": str(first.result)},
        run={"steps": 1},
        optimizer={"learning_rate": 1e-9},
    )
    result = asyncio.run(train_rl(RunConfig.model_validate(rl.model_dump()), store=store))
    started, ended = (
        load_file(path / "adapter_model.safetensors") for path in (first.result, result.adapter)
    )
    assert started.keys() == ended.keys()
    assert all(torch.allclose(ended[name], weight, atol=1e-6) for name, weight in started.items())
    readings = [event.data["version"] for event in store.list_events(result.run_id, kind="canary")]
    assert readings[0] == 1  # the engine served the adapter before the first rollout


def test_an_adapter_of_another_model_is_refused(lora_run, data, tmp_path, store):
    _, first = lora_run
    other = make_tiny_model(tmp_path / "other", layers=1)
    with pytest.raises(UsageError, match="does not fit this model"):
        train(make_config(other, data, model={"id": str(other), "adapter": str(first.result)}), store)


# -- the command ------------------------------------------------------------------------------


def test_the_command_trains_copies_the_adapter_and_prints_json(tmp_path, model, data, store, capsys):
    words = ["sft", "train", data["train"], "--eval", data["eval"], "-m", str(model), "--steps", "2"]
    code = main([*words, "--lr", "0.02", "--set", "lora.rank=2", "--output", str(tmp_path / "out"), "--json"])
    shown = json.loads(capsys.readouterr().out)
    assert code == 0
    assert (shown["status"], shown["steps"], shown["method"]) == ("finished", 2, "lora")
    assert shown["adapter"] == str(tmp_path / "out")
    assert json.loads((tmp_path / "out" / "adapter_config.json").read_text())["r"] == 2
    assert shown["verdict"]["sentence"].startswith("better: loss")
    assert store.get_run(shown["run_id"]).kind == "sft"


def test_a_dry_run_counts_and_starts_nothing(model, data, store, capsys):
    before = len(store.list_runs())
    words = ["sft", "train", data["train"], "-m", str(model), "--epochs", "3", "--full", "--dry-run"]
    assert main([*words, "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert (plan["train"]["rows"], plan["eval"], plan["steps"], plan["method"]) == (20, None, 6, "full")
    weights = sum(p.numel() for p in load_causal_lm(model, dtype="float32", device="cpu").parameters())
    assert plan["training_bytes"] == pytest.approx(16 * weights, rel=0.05)
    assert main(words) == 0
    assert "nothing: no verdict" in capsys.readouterr().out
    assert len(store.list_runs()) == before


def test_the_memory_in_a_plan_does_not_depend_on_how_the_weights_are_stored(tmp_path, model, data):
    shutil.copytree(model, tmp_path / "m")
    half = load_causal_lm(model, dtype="bfloat16", device="cpu")
    half.save_pretrained(tmp_path / "m")
    path = tmp_path / "m" / "config.json"
    config = json.loads(path.read_text())
    config["torch_dtype"] = config.pop("dtype")  # as older ones spell it
    path.write_text(json.dumps(config))
    plan = describe_plan(prepare(make_config(tmp_path / "m", data, run={"method": "full"})))
    assert plan["training_bytes"] == 16 * sum(weight.numel() for weight in half.parameters())


def test_rows_over_the_context_are_all_listed_before_anything_starts(tmp_path, model, store, capsys):
    rows = make_rows(6)
    for place in (1, 4):
        rows[place]["messages"][0]["content"] = "x" * (600 + place)
    path = tmp_path / "long.jsonl"
    path.write_text("\n" + "\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    before = len(store.list_runs())
    assert main(["sft", "train", str(path), "-m", str(model)]) == 2
    error = capsys.readouterr().err
    assert "2 of 6 rows have more than 512 tokens" in error
    assert "line 3 (row 1): 6" in error and "line 6 (row 4): 6" in error
    assert len(store.list_runs()) == before


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["TRAIN"], 2, "no model given"),
        (["-m", "MODEL"], 2, "no training data given"),
        (["TRAIN", "-m", "no-such-model"], 3, "no model called"),
        (["missing.jsonl", "-m", "MODEL"], 2, "missing.jsonl"),
        (["BAD", "-m", "MODEL"], 2, "row 1"),
        (["TRAIN", "--eval", "TRAIN", "-m", "MODEL"], 2, "20 of the held-out rows are training rows too"),
        (["TRAIN", "--eval", "MANY", "-m", "MODEL"], 2, "2,049 rows, but at most 2,048"),
        (["TRAIN", "-m", "MODEL", "--set", "data.max_context_tokens=4096"], 2, "reads 512 tokens at most"),
        (["TRAIN", "-m", "MODEL", "--adapter", "MODEL"], 2, "not an adapter folder"),
        (["TRAIN", "--resume", "x"], 2, "does not take a file"),
    ],
)
def test_what_is_wrong_is_told_before_anything_starts(
    tmp_path, model, data, store, capsys, words, code, text
):
    places = {"TRAIN": data["train"], "MODEL": str(model)}
    if "BAD" in words:
        places["BAD"] = str(write_rows(tmp_path / "bad.jsonl", [make_rows(1)[0], {"messages": []}]))
    if "MANY" in words:
        places["MANY"] = str(write_rows(tmp_path / "many.jsonl", make_rows(2049, tag="m")))
    before = len(store.list_runs())
    assert main(["sft", "train", *(places.get(word, word) for word in words)]) == code
    assert text in capsys.readouterr().err
    assert len(store.list_runs()) == before


def test_a_training_run_of_another_kind_is_sent_to_its_own_command(store):
    store.create_run(kind="train", name="rl", config={}, run_id="rl0")
    with pytest.raises(UsageError, match="is a run of train") as caught:
        resume("rl0", store)
    assert "castform train --resume rl0" in caught.value.hint
