"""The program of the hosted SDK's own page, on this machine: uploaded, launched, trained, looked at, cancelled."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from benchmax.sft import SftDataset
from castform.cli.main import main
from castform.platform import JobLaunchError, SftTrainingConfig, TrainerClient, upload_sft_assets
from castform.platform.job import CONFIG_FILE, JOB_FOLDER
from castform.platform.model_default import FoundModel
from castform.platform.sft_settings import make_settings, write_toml
from castform.runs import RunStore
from castform.sft.config import load_sft_config
from castform_trainer.testing import make_tiny_model

sys.path.insert(0, str(Path(__file__).parent))
from sft_runs import make_rows, write_rows

PROGRAM = """\
from benchmax.sft import SftDataset, SftDatasetError
from castform.platform import SftTrainingConfig, TrainerClient, upload_sft_assets
train = SftDataset.from_jsonl("train.jsonl")
uploaded = upload_sft_assets(dataset=train, run_name="support-sft")
run_id = TrainerClient().launch_sft_run(
    assets=uploaded,
    name="support-sft",
    config=SftTrainingConfig(num_epochs=1, learning_rate=1e-5, seed=42),
)
"""
THEN_DIE = """
import os, signal
print(run_id, TrainerClient().get_run(run_id)["status"], flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sdk")
    make_tiny_model(folder / "home" / "models" / "tiny")
    write_rows(folder / "train.jsonl", make_rows(20))
    write_rows(folder / "eval.jsonl", make_rows(8, seed=1, tag="h"))
    return folder / "home"


@pytest.fixture
def here(home, monkeypatch):
    monkeypatch.setenv("CASTFORM_HOME", str(home))
    monkeypatch.delenv("CASTFORM_MODEL", raising=False)
    monkeypatch.delenv("CASTFORM_STORE_URL", raising=False)
    monkeypatch.chdir(home.parent)
    return home


def wait_for_end(home: Path, run_id: str, *, seconds: float = 240) -> None:
    """Wait until the run's process has gone."""
    with RunStore.open(home) as store:
        record = store.get_run(run_id)
    try:
        descriptor = os.pidfd_open(record.pid)
    except ProcessLookupError:
        return
    try:
        ended, _, _ = select.select([descriptor], [], [], seconds)
    finally:
        os.close(descriptor)
    assert ended, f"run {run_id} goes on after {seconds} s"


def stop_left_over(home: Path) -> None:
    with RunStore.open(home) as store:
        for record in store.list_runs():
            if record.status in ("pending", "running"):
                os.kill(record.pid, signal.SIGKILL)


@pytest.fixture(autouse=True)
def _no_run_is_left(home):
    yield
    stop_left_over(home)


def scalars_of(run_id, capsys):
    capsys.readouterr()
    assert main(["runs", "scalars", run_id, "--json"]) == 0
    return json.loads(capsys.readouterr().out)["modes"]


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_the_program_of_the_sdks_page_trains_here_though_it_is_killed(here, capsys):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM + THEN_DIE], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    run_id, status = done.stdout.split()
    assert status in ("pending", "running")
    wait_for_end(here, run_id)
    with TrainerClient() as client:
        run = client.get_run(run_id, include_config=True)
        details = client.get_run_details(run_id)
        scalars = client.get_run_scalars(run_id)
        kinds = [event["kind"] for event in client.get_run_events(run_id)]
        assert client.list_runs()[0]["id"] == run_id
        assert client.cancel_run(run_id)["message"] == f"run {run_id} is not running: finished"
    assert (run["status"], run["name"], run["kind"]) == ("finished", "support-sft", "sft")
    assert (run["totalSteps"], run["error"]) == (5, None)  # 20 rows, 4 a step
    assert run["launcherArgs"]["model"]["id"] == "tiny"  # the model that was pulled last
    assert run["launcherArgs"]["data"]["max_context_tokens"] == 512  # it reads no more
    assert kinds == ["launched", "inputs", "started", "checkpoint", "ended"]
    assert (details["latestStep"], details["modes"], details["errorCount"]) == (5, ["train"], 0)
    assert [point["step"] for point in scalars["train/loss"]] == [1, 2, 3, 4, 5]
    assert scalars["train/learning_rate"][0]["value"] == pytest.approx(1e-5)
    assert Path(details["resultPath"], "adapter_config.json").is_file()
    assert "finished after 5 steps" in Path(details["logPath"]).read_text(encoding="utf-8")
    shown = scalars_of(run_id, capsys)["train"]
    assert shown["train/loss"] == scalars["train/loss"]
    assert set(shown) >= {"train/loss", "train/learning_rate", "train/grad_norm"}


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_cancelled_run_keeps_a_checkpoint_and_the_same_run_is_not_launched_twice(here, capsys):
    assets = upload_sft_assets(
        dataset=SftDataset.from_jsonl("train.jsonl"),
        eval_dataset=SftDataset.from_jsonl("eval.jsonl"),
        run_name="long",
    )
    config = SftTrainingConfig(num_epochs=100, save_interval=10_000, lora_rank=32, model="tiny")
    with TrainerClient() as client:
        run_id = client.launch_sft_run(assets=assets, name="long", config=config)
        with pytest.raises(JobLaunchError, match=f"launched already .*: {run_id}") as refused:
            client.launch_sft_run(assets=assets, name="long", config=config)
        assert refused.value.status_code == 409
        with RunStore.open(here) as store:
            descriptor = os.pidfd_open(store.get_run(run_id).pid)
        while not client.get_run_scalars(run_id, "train"):
            ended, _, _ = select.select([descriptor], [], [], 0.1)
            assert not ended, Path(client.get_run_details(run_id)["logPath"]).read_text(encoding="utf-8")
        os.close(descriptor)
        assert client.cancel_run(run_id[:8]) == {
            "id": run_id,
            "status": "running",
            "message": f"run {run_id} was asked to stop",
        }
        wait_for_end(here, run_id)
        run = client.get_run(run_id, include_config=True)
        details = client.get_run_details(run_id)
    settings = run["launcherArgs"]
    assert (run["status"], run["totalSteps"]) == ("stopped", 500)
    assert (settings["lora"]["rank"], settings["lora"]["alpha"]) == (32, 64.0)
    assert settings["eval"]["every"] == 10_000  # of save_interval
    assert 1 <= details["latestStep"] < 500
    (checkpoint,) = Path(details["runDir"], "checkpoints").iterdir()
    assert checkpoint.name == f"step-{details['latestStep']:06d}"
    shown = scalars_of(run_id, capsys)
    assert shown["eval"]["eval/loss"][0]["step"] == 0
    assert len(shown["train"]["train/loss"]) == details["latestStep"]
    assert main(["runs", "scalars", run_id, "--csv", "--name", "eval/loss"]) == 0
    header, line = capsys.readouterr().out.splitlines()
    assert header == "mode,name,step,value"
    assert line.startswith("eval,eval/loss,0,5.")


def launched_without_a_process(home: Path, train: str = "train.jsonl", **args) -> tuple[str, list[str]]:
    """Store a run as a launch does, and return its id and the words that its process would get."""
    launch = {
        "name": "by hand",
        "dataset": {"format": "benchmax-sft-v1", "path": "", "digest": "", "rows": 20},
        "args": {**SftTrainingConfig().to_args(), **args},
    }
    model = FoundModel(id="tiny", context_tokens=512)
    settings = make_settings(launch, model=model, train=home.parent / train, held_out=None)
    with RunStore.open(home) as store:
        record = store.create_run(kind="sft", name="by hand", config={})
        folder = record.run_dir / JOB_FOLDER
        folder.mkdir(parents=True)
        write_toml(folder / CONFIG_FILE, settings)
        assert load_sft_config(folder / CONFIG_FILE).batch.rows == 4
        store.set_config(record.run_id, load_sft_config(folder / CONFIG_FILE).model_dump(mode="json"))
    config = str(folder / CONFIG_FILE)
    return record.run_id, ["sft", "train", "--config", config, "--launched", record.run_id]


def test_a_row_over_the_context_is_a_failed_run_that_names_it(here, capsys):
    rows = make_rows(3)
    rows[1]["messages"][0]["content"] = "?" * 300
    write_rows(here.parent / "long.jsonl", rows)
    run_id, words = launched_without_a_process(here, "long.jsonl", max_context_tokens=256)
    assert main(words) == 2
    assert "1 of 3 rows have more than 256 tokens" in capsys.readouterr().err
    with TrainerClient() as client:
        run = client.get_run(run_id)
        assert run["status"] == "failed"
        assert "1 of 3 rows have more than 256 tokens" in run["error"]
        assert "line 2 (row 1): 3" in run["error"]
        assert client.get_run_details(run_id)["errorCount"] == 1


def test_a_launched_run_is_started_once_and_trains_the_same_as_the_command(here, capsys):
    run_id, words = launched_without_a_process(here)
    assert main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["run_id"] == run_id
    assert main(words) == 2
    assert f"run {run_id} was started already; it is finished" in capsys.readouterr().err
    assert main([*words[:-2], "--json"]) == 0
    other = json.loads(capsys.readouterr().out)["run_id"]
    mine, theirs = (scalars_of(each, capsys)["train"] for each in (run_id, other))
    for name in ("train/loss", "train/grad_norm", "train/learning_rate"):
        assert mine[name] == theirs[name]


def test_a_stop_asked_for_before_the_start_is_kept(here):
    with RunStore.open(here) as store:
        record = store.create_run(kind="sft", name="waits", config={})
        store.request_stop(record.run_id)
        store.set_status(record.run_id, "running", keep_stop_request=True)
        assert store.stop_requested(record.run_id)
        store.set_status(record.run_id, "stopped")
        store.set_status(record.run_id, "running")
        assert not store.stop_requested(record.run_id)
        store.set_status(record.run_id, "finished")
