"""What a launch on this machine refuses before it starts anything, and the settings that it means."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmax.sft import SftDataset
from castform.platform import (
    JobLaunchError,
    SftTrainingConfig,
    TrainerClient,
    TrainerError,
    upload_sft_assets,
)
from castform.platform.local import LocalTransport
from castform.platform.model_default import FoundModel, find_model
from castform.platform.sft_settings import PLACES, make_settings, write_toml
from castform.runs import RunStore
from castform.sft.config import SftConfig, load_sft_config


def rows(*answers):
    return SftDataset.from_rows(
        {"messages": [{"role": "user", "content": "?"}, {"role": "assistant", "content": answer}]}
        for answer in answers
    )


@pytest.fixture
def home(monkeypatch, tmp_path):
    monkeypatch.setenv("CASTFORM_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("CASTFORM_MODEL", raising=False)
    monkeypatch.delenv("CASTFORM_STORE_URL", raising=False)
    return tmp_path / "home"


def pull(home, name, *, tokens=512, at=None):
    folder = home / "models" / name
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(f'{{"max_position_embeddings": {tokens}}}', encoding="utf-8")
    if at is not None:
        os.utime(folder, (at, at))
    return folder


def refuse(assets, text, *, config=None):
    with TrainerClient() as client, pytest.raises(JobLaunchError, match=text) as caught:
        client.launch_sft_run(assets=assets, name="r", config=config)
    with TrainerClient() as client:
        assert client.list_runs() == []
    return caught.value


def test_no_model_at_all_is_an_error_that_names_the_ways_out(home):
    error = refuse(upload_sft_assets(dataset=rows("a"), run_name="r"), "no model was named")
    assert error.status_code == 404
    for way in ("SftTrainingConfig(model=", "castform model pull", "CASTFORM_MODEL"):
        assert way in error.hint


def test_an_unknown_model_is_refused_with_a_guess(home):
    pull(home, "smollm2-135m")
    assets = upload_sft_assets(dataset=rows("a"), run_name="r")
    error = refuse(assets, "no model called 'smollm2-136m'", config=SftTrainingConfig(model="smollm2-136m"))
    assert "did you mean 'smollm2-135m'" in error.hint


def test_data_that_is_gone_or_changed_is_refused(home):
    pull(home, "tiny")
    assets = upload_sft_assets(dataset=rows("a"), run_name="r")
    file = home / "storage" / assets.dataset_path
    file.write_bytes(file.read_bytes() + b"\n")
    error = refuse(assets, "is not what was uploaded")
    assert (error.status_code, "upload_sft_assets" in error.hint) == (400, True)
    file.unlink()
    assert refuse(assets, "cannot be read: No such file").status_code == 404
    os.mkfifo(file)
    assert refuse(assets, "train.jsonl is no file").status_code == 400


def test_changed_held_out_rows_are_refused(home):
    pull(home, "tiny")
    assets = upload_sft_assets(dataset=rows("a"), eval_dataset=rows("b"), run_name="r")
    file = home / "storage" / assets.dataset_path.replace("train.jsonl", "eval.jsonl")
    file.write_bytes(rows("c").to_jsonl_bytes())
    refuse(assets, "eval.jsonl is not what was uploaded")


def test_held_out_rows_that_are_trained_on_are_refused(home):
    pull(home, "tiny")
    assets = upload_sft_assets(dataset=rows("a", "b", "c"), eval_dataset=rows("c", "d", "a"), run_name="r")
    refuse(assets, "2 of the held-out rows are training rows too")


def test_the_model_of_a_run_that_names_none(home, monkeypatch):
    models = home / "models"
    pull(home, "new", at=2_000_000_000, tokens=64)
    pull(home, "old", at=1_000_000_000)
    pull(home, ".partial", at=2_100_000_000)
    found = find_model(None, models=models)
    assert (found.id, found.context_tokens) == ("new", 64)
    assert "new is trained, which of 2 models was pulled last" in found.warning
    monkeypatch.setenv("CASTFORM_MODEL", "old")
    assert find_model(None, models=models) == FoundModel(id="old", context_tokens=512)
    assert find_model("new", models=models).id == "new"
    assert find_model("org/name", models=models) == FoundModel(id="org/name", context_tokens=None)
    for name in ("../x", "./new", ".partial", "a/b/c", "/nowhere/x"):
        with pytest.raises(JobLaunchError, match="no model called"):
            find_model(name, models=models)


def test_the_only_model_is_taken_without_a_word(home):
    pull(home, "tiny")
    assert find_model(None, models=home / "models") == FoundModel(id="tiny", context_tokens=512)


def test_a_folder_is_named_by_its_whole_path(home, monkeypatch):
    folder = pull(home, "mine", tokens=128)
    monkeypatch.chdir(folder.parent)
    assert find_model("./mine", models=home / "none") == FoundModel(id=str(folder), context_tokens=128)
    (folder / "config.json").write_text("{", encoding="utf-8")
    assert find_model(str(folder), models=home / "none").context_tokens is None


def launch_of(config, *, name="r", with_eval=False):
    launch = {"name": name, "dataset": {}, "args": config.to_args()}
    if config.model is not None:
        launch["model"] = config.model
    if with_eval:
        launch["eval"] = {}
    return launch


def settings_of(config, tmp_path, *, tokens=None, with_eval=False, name="r"):
    return make_settings(
        launch_of(config, name=name, with_eval=with_eval),
        model=FoundModel(id="tiny", context_tokens=tokens),
        train=tmp_path / "train.jsonl",
        held_out=tmp_path / "eval.jsonl" if with_eval else None,
    )


def test_every_argument_has_its_setting(tmp_path):
    config = SftTrainingConfig(
        num_epochs=2,
        learning_rate=0.01,
        max_context_tokens=1000,
        save_interval=7,
        seed=3,
        lr_decay_style="constant",
        min_lr=0.001,
        warmup_ratio=0.25,
        adam_beta2=0.95,
        grad_clip=2.5,
        lora_rank=64,
        global_batch_size=12,
        eval_interval=9,
    )
    assert set(config.to_args()) == set(PLACES)
    found = SftConfig.model_validate(settings_of(config, tmp_path, with_eval=True))
    assert (found.run.epochs, found.run.seed, found.run.name) == (2, 3, "r")
    assert (found.optimizer.learning_rate, found.optimizer.min_learning_rate) == (0.01, 0.001)
    assert (found.optimizer.decay, found.optimizer.warmup_ratio) == ("constant", 0.25)
    assert (found.optimizer.beta2, found.optimizer.max_grad_norm) == (0.95, 2.5)
    assert (found.lora.rank, found.lora.alpha, found.batch.rows) == (64, 128.0, 12)
    assert (found.checkpoint.every, found.eval.every, found.data.max_context_tokens) == (7, 9, 1000)
    assert (found.data.train, found.data.eval) == (tmp_path / "train.jsonl", tmp_path / "eval.jsonl")
    assert (found.model.id, found.run.method) == ("tiny", "lora")


@pytest.mark.parametrize(
    ("model", "batch"), [(None, 4), ("google/gemma-4-26B-A4B-it", 8), ("smollm2-135m", 4)]
)
def test_what_was_not_chosen_is_the_platforms(tmp_path, model, batch):
    config = SftTrainingConfig(save_interval=11, model=model)
    found = SftConfig.model_validate(settings_of(config, tmp_path, with_eval=True))
    own = SftConfig()
    assert (found.batch.rows, found.eval.every, found.run.seed) == (batch, 11, 42)
    assert found.lora == own.lora
    assert found.optimizer == own.optimizer.model_copy(update={"learning_rate": 1e-5})
    assert SftConfig.model_validate(settings_of(config, tmp_path)).eval.every == 0


def test_arguments_that_a_launch_leaves_out_have_their_defaults(tmp_path):
    launch = {"name": "r", "dataset": {}, "args": {}}
    paths = {"train": tmp_path / "train.jsonl", "held_out": tmp_path / "eval.jsonl"}
    found = make_settings(launch, model=FoundModel(id="tiny", context_tokens=None), **paths)
    assert found == settings_of(SftTrainingConfig(), tmp_path, with_eval=True)


def test_the_context_is_never_above_what_the_model_reads(tmp_path):
    config = SftTrainingConfig()
    for tokens, expected in ((512, 512), (32768, 8192), (None, 8192)):
        assert settings_of(config, tmp_path, tokens=tokens)["data"]["max_context_tokens"] == expected


@settings(deadline=None, max_examples=50)
@given(name=st.text(min_size=1), rate=st.floats(1e-300, 0.1))
def test_the_settings_file_says_what_the_launch_said(tmp_path_factory, name, rate):
    name = name.encode("utf-8", "replace").decode()
    folder = tmp_path_factory.mktemp("toml")
    wanted = settings_of(SftTrainingConfig(learning_rate=rate, lora_rank=32), folder, name=name)
    write_toml(folder / "config.toml", wanted)
    assert tomllib.loads((folder / "config.toml").read_bytes().decode()) == wanted
    assert load_sft_config(folder / "config.toml") == SftConfig.model_validate(wanted)


def test_runs_of_every_kind_are_shown_and_an_unknown_one_is_404(home):
    with RunStore.open() as store:
        record = store.create_run(kind="train", name="rl", config={"run": {"steps": 30}}, run_id="abc123")
        store.add_scalars("abc123", 1, {"train/loss": 2.0, "lost": float("nan")})
        store.add_scalars("abc123", 2, {"eval/score": 0.5}, mode="eval")
        store.add_event("abc123", "checkpoint", step=2, data={"path": "x"})
    with TrainerClient() as client:
        (run,) = client.list_runs()
        assert run == client.get_run("abc")
        assert (run["id"], run["kind"], run["name"], run["status"]) == ("abc123", "train", "rl", "pending")
        assert (run["totalSteps"], run["latestActivityMessage"]) == (30, "checkpoint at step 2")
        assert run["createdAt"] == run["updatedAt"]
        assert run["createdAt"].endswith("Z")
        assert "launcherArgs" not in run
        assert client.list_runs(include_config=True)[0]["launcherArgs"] == {"run": {"steps": 30}}
        assert client.get_run_details("abc123") == {
            "id": "abc123",
            "status": "pending",
            "latestStep": 2,
            "totalSteps": 30,
            "modes": ["eval", "train"],
            "errorCount": 0,
            "error": None,
            "runDir": str(record.run_dir),
            "logPath": None,
            "resultPath": None,
            "verdict": None,
        }
        assert client.get_run_scalars("abc123") == {
            "eval/score": [{"step": 2, "value": 0.5}],
            "lost": [{"step": 1, "value": None}],
            "train/loss": [{"step": 1, "value": 2.0}],
        }
        assert list(client.get_run_scalars("abc123", "eval")) == ["eval/score"]
        assert client.get_run_scalars("abc123", "none") == {}
        (event,) = client.get_run_events("abc123")
        assert (event["kind"], event["step"], event["data"]) == ("checkpoint", 2, {"path": "x"})
        for ask in (
            client.get_run,
            client.get_run_details,
            client.get_run_events,
            client.get_run_scalars,
            client.cancel_run,
        ):
            with pytest.raises(TrainerError, match="no run 'xyz'") as caught:
                ask("xyz")
            assert caught.value.status_code == 404
            assert not isinstance(caught.value, JobLaunchError)
        assert client.cancel_run("abc123")["message"] == "run abc123 was asked to stop"
    with RunStore.open() as store:
        assert store.stop_requested("abc123")


def test_a_store_that_cannot_be_opened_is_a_trainer_error(home):
    home.mkdir()
    (home / "runs.db").write_text("this is no database, " * 100, encoding="utf-8")
    with pytest.raises(TrainerError, match="is damaged") as caught:
        TrainerClient(transport=LocalTransport(home)).list_runs()
    assert caught.value.hint


def test_a_home_that_cannot_be_written_is_a_launch_error(home, tmp_path):
    pull(home, "tiny")
    assets = upload_sft_assets(dataset=rows("a"), run_name="r")
    (home / "launch.lock").mkdir()
    with TrainerClient() as client, pytest.raises(JobLaunchError, match=r"launch\.lock: Is a directory"):
        client.launch_sft_run(assets=assets, name="r")


def test_the_page_names_every_argument_with_its_setting():
    page = Path(__file__).parents[4] / "docs" / "sft-sdk.md"
    lines = page.read_text(encoding="utf-8").splitlines()
    rows_of_five = [cells for line in lines if len(cells := line.split("|")) == 6]
    shown = {cells[1].strip(" `"): cells[4].strip(" `") for cells in rows_of_five if "`" in cells[1]}
    assert shown == {**PLACES, "model": "model.id", "lora_rank": "lora.rank`, `lora.alpha"}


BODY = {
    "name": "r",
    "dataset": {
        "format": "benchmax-sft-v1",
        "path": "datasets/r/0/train.jsonl",
        "digest": "0" * 64,
        "rows": 1,
    },
    "args": {},
}


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"name": ""}, "name must be a line of text"),
        ({"name": None}, "name must be a line of text"),
        ({"extra": 1}, "the launch may not have extra"),
        ({"dataset": []}, "dataset must be an object"),
        ({"dataset": {"format": "benchmax-sft-v1"}}, "dataset has no path"),
        ({"dataset": {**BODY["dataset"], "path": 3}}, "dataset.path must be a text"),
        ({"dataset": {**BODY["dataset"], "digest": None}}, "dataset.digest must be a text"),
        ({"dataset": {**BODY["dataset"], "path": "../../etc/passwd"}}, "is not a path in the storage"),
        ({"dataset": {**BODY["dataset"], "path": "/etc/passwd"}}, "is not a path in the storage"),
        ({"dataset": {**BODY["dataset"], "format": "other"}}, "the format 'other', not benchmax-sft-v1"),
        ({"args": {"num_epoch": 1}}, "args may not have num_epoch"),
        ({"args": {"model": "tiny"}}, "args may not have model"),
        ({"args": {"num_epochs": 0}}, "num_epochs must be between 1 and 100"),
        ({"args": {"eval_interval": 5}}, "eval_interval is set, but there are no held-out rows"),
        ({"eval": {"rows": 1}}, "eval has no digest"),
        ({"eval": {"rows": 1, "digest": 1}}, "eval.digest must be a text"),
        ({"model": 3}, "model must be a name"),
    ],
)
def test_a_launch_from_anywhere_is_checked_before_anything_is_touched(home, change, text):
    pull(home, "tiny")
    with pytest.raises(JobLaunchError, match=text) as caught:
        LocalTransport().launch_sft_run({**BODY, **change})
    assert caught.value.status_code == 400


def test_a_launch_without_the_name_is_refused_too(home):
    with pytest.raises(JobLaunchError, match="the launch has no name, dataset, args"):
        LocalTransport().launch_sft_run({})


@pytest.mark.parametrize("run_id", [5, None, b"ab"])
def test_what_is_no_id_of_a_run_is_refused_by_its_kind(home, run_id):
    with TrainerClient() as client, pytest.raises(TypeError, match="run_id must be text, not "):
        client.get_run(run_id)
