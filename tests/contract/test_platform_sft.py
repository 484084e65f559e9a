"""The finetuning part of `castform.platform`, by what the public SDK promises: bodies, bounds, digests, paths."""

from __future__ import annotations

import hashlib
import subprocess
import sys

import pytest

from benchmax.sft import SftDataset
from castform.platform import (
    AuthenticationError,
    JobLaunchError,
    SftTrainingConfig,
    TrainerClient,
    TrainerError,
    UploadedSftAssets,
    ensure_session,
    platform_bearer,
    sft_assets_digest,
    upload_sft_assets,
)
from castform.platform.storage import LocalStorage

ROWS = [
    {"messages": [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "4"}]},
    {"messages": [{"role": "user", "content": "3+3?"}, {"role": "assistant", "content": "6", "weight": 1}]},
]
HELD_OUT = [{"messages": [{"role": "user", "content": "1+1?"}, {"role": "assistant", "content": "2"}]}]
DEFAULTS = {
    "num_epochs": 1,
    "learning_rate": 1e-5,
    "max_context_tokens": 8192,
    "save_interval": 20,
    "seed": 42,
}


class RecordingTransport:
    """Keeps what it is asked; a server that says yes, with a warning."""

    def __init__(self) -> None:
        self.asked: list[tuple] = []

    def launch_sft_run(self, launch):
        self.asked.append(("launch", launch))
        return {"runId": "run-1", "warnings": ["few rows"]}

    def list_runs(self, *, include_config):
        self.asked.append(("list", include_config))
        return [{"id": "run-1"}]

    def get_run(self, run_id, *, include_config):
        self.asked.append(("get", run_id, include_config))
        return {"id": run_id, "status": "running"}

    def get_run_details(self, run_id):
        return {"id": run_id, "latestStep": 3}

    def get_run_events(self, run_id):
        return [{"id": 1, "kind": "started"}]

    def get_run_scalars(self, run_id, mode):
        self.asked.append(("scalars", run_id, mode))
        return {"train/loss": [{"step": 1, "value": 2.0}]}

    def cancel_run(self, run_id):
        return {"status": "running", "message": f"run {run_id} was asked to stop"}

    def close(self):
        self.asked.append(("close",))


@pytest.fixture
def storage(tmp_path):
    return LocalStorage(tmp_path / "storage")


@pytest.fixture
def train():
    return SftDataset.from_rows(ROWS)


@pytest.fixture
def held_out():
    return SftDataset.from_rows(HELD_OUT)


def launch(assets, name="support-sft", config=None):
    transport = RecordingTransport()
    with pytest.warns(UserWarning, match="few rows"), TrainerClient(transport=transport) as client:
        assert client.launch_sft_run(assets=assets, name=name, config=config) == "run-1"
    assert transport.asked[1:] == [("close",)]
    return transport.asked[0][1]


def test_an_untouched_config_has_five_arguments():
    assert SftTrainingConfig().to_args() == DEFAULTS
    assert SftTrainingConfig().model is None
    assert SftTrainingConfig(model="tiny").to_args() == DEFAULTS


def test_what_is_set_is_an_argument():
    more = {
        "lr_decay_style": "cosine",
        "min_lr": 0,
        "warmup_ratio": 0.1,
        "adam_beta2": 0.95,
        "grad_clip": 1.0,
        "lora_rank": 32,
        "global_batch_size": 8,
        "eval_interval": 10,
    }
    assert SftTrainingConfig(**more).to_args() == {**DEFAULTS, **more}


@pytest.mark.parametrize(
    ("name", "inside", "outside", "text"),
    [
        ("num_epochs", [1, 100], [0, 101, -1], "num_epochs must be between 1 and 100"),
        ("save_interval", [1, 10_000], [0, 10_001], "save_interval must be between 1 and 10000"),
        ("seed", [0, 2**31 - 1], [-1, 2**31], "seed must be between 0 and 2147483647"),
        ("eval_interval", [1, 10_000], [0, -5, 10_001], "eval_interval must be between 1 and 10000"),
        ("learning_rate", [1e-12, 0.1, 0.05], [0, 0.0, -1e-5, 0.1000001, 1], "above 0 and at most 0.1"),
        ("grad_clip", [1e-9, 10, 10.0], [0, -1, 10.01], "grad_clip must be above 0 and at most 10"),
        ("warmup_ratio", [0, 0.0, 0.5], [-0.01, 0.51, 1], "warmup_ratio must be between 0 and 0.5"),
        ("adam_beta2", [0.9, 0.999], [0.89, 0.9991, 1, 0], "adam_beta2 must be between 0.9 and 0.999"),
        ("min_lr", [0, 0.0, 9e-6], [-1e-9], "min_lr must be at least 0"),
        ("min_lr", [], [1e-5, 1], "min_lr must be below learning_rate, which is 1e-05"),
        ("lora_rank", [32, 64], [16, 128, 33, 0, 32.0], "lora_rank must be 32 or 64"),
        ("lr_decay_style", ["constant", "cosine"], ["linear", "", "Cosine"], "lr_decay_style must be"),
        (
            "model",
            ["a/b", "smollm2-135m", "/m"],
            ["", "  ", 7, ["x"], "a\nb", "a\0b"],
            "model must be a name",
        ),
        (
            "max_context_tokens",
            [256, 8192, 32768, 65536, 131072],
            [255, 8193, 16384, 131073, 0],
            "max_context_tokens must be between 256 and 8192, or one of 32768, 65536, 131072",
        ),
        ("global_batch_size", [4, 8, 64], [3, 0, 65, 68], "global_batch_size must be between 4 and 64"),
        ("global_batch_size", [], [5, 6, 63], "global_batch_size must be a multiple of 4"),
    ],
)
def test_each_argument_has_its_bounds(name, inside, outside, text):
    for value in inside:
        assert getattr(SftTrainingConfig(**{name: value}), name) == value
    for value in outside:
        with pytest.raises(ValueError, match=text):
            SftTrainingConfig(**{name: value})


@pytest.mark.parametrize(
    ("model", "context", "inside", "outside"),
    [
        ("Qwen/Qwen3.5-4B", 8192, [4, 12, 64], [2, 6]),
        ("Qwen/Qwen3.5-35B-A3B", 8192, [8, 16, 64], [4, 12]),
        ("google/gemma-4-26B-A4B-it", 256, [8, 64], [4, 60]),
        ("google/gemma-4-26B-A4B-it", 32768, [1, 7, 64], [0, 65]),
        (None, 131072, [1, 5, 64], [0, 65]),
        ("smollm2-135m", 8192, [1, 6, 64], [0, 65]),
    ],
)
def test_a_batch_is_a_multiple_of_what_the_model_computes_side_by_side(model, context, inside, outside):
    for value in inside:
        SftTrainingConfig(model=model, max_context_tokens=context, global_batch_size=value)
    for value in outside:
        with pytest.raises(ValueError, match="global_batch_size must be"):
            SftTrainingConfig(model=model, max_context_tokens=context, global_batch_size=value)


INTEGERS = ("num_epochs", "save_interval", "seed", "eval_interval", "max_context_tokens", "global_batch_size")
NUMBERS = ("learning_rate", "min_lr", "warmup_ratio", "adam_beta2", "grad_clip")


@pytest.mark.parametrize("name", INTEGERS)
@pytest.mark.parametrize("value", [True, False, 4.0, 0.5, "4", [4]])
def test_what_is_no_integer_is_refused_as_such(name, value):
    with pytest.raises(ValueError, match=f"{name} must be an integer"):
        SftTrainingConfig(**{name: value})


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("value", [True, False, "0.01", [0.01]])
def test_what_is_no_number_is_refused_as_such(name, value):
    with pytest.raises(ValueError, match=f"{name} must be a number"):
        SftTrainingConfig(**{name: value})
    for lost in (float("nan"), float("inf"), float("-inf")):
        with pytest.raises(ValueError, match=f"{name} must be (above|between|at least)"):
            SftTrainingConfig(**{name: lost})


@pytest.mark.parametrize("value", [True, 32.5, "32", [32]])
def test_a_rank_is_one_of_two_integers(value):
    with pytest.raises(ValueError, match="lora_rank must be 32 or 64"):
        SftTrainingConfig(lora_rank=value)


@pytest.mark.parametrize(
    "name", ["num_epochs", "learning_rate", "max_context_tokens", "save_interval", "seed"]
)
def test_what_has_a_default_is_not_none(name):
    with pytest.raises(ValueError, match=f"{name} must be"):
        SftTrainingConfig(**{name: None})


def test_all_faults_are_named_at_once_and_a_config_does_not_change():
    with pytest.raises(ValueError, match=r"num_epochs must be .*; seed must be .*; learning_rate must be"):
        SftTrainingConfig(num_epochs=0, seed=-1, learning_rate=2)
    with pytest.raises(AttributeError):
        SftTrainingConfig().seed = 1


def test_the_digest_of_two_parts_is_the_known_one():
    both = sft_assets_digest("00" * 32, "11" * 32)
    assert both.startswith("f919cf55")
    assert both.endswith("31e599")
    assert sft_assets_digest("00" * 32) == "00" * 32
    assert sft_assets_digest("11" * 32, "00" * 32) != both


@pytest.mark.parametrize("wrong", ["", "0" * 63, "A" * 64, "g" * 64, "0" * 64 + "\n", None, b"0" * 64])
def test_a_digest_is_64_hex_digits(wrong):
    with pytest.raises(ValueError, match="SHA-256"):
        sft_assets_digest(wrong)
    if wrong is not None:
        with pytest.raises(ValueError, match="SHA-256"):
            sft_assets_digest("00" * 32, wrong)


def test_assets_lie_under_the_first_digits_of_their_digest(storage, train):
    digest = hashlib.sha256(train.to_jsonl_bytes()).hexdigest()
    assets = upload_sft_assets(dataset=train, run_name="support-sft", storage=storage)
    assert assets == UploadedSftAssets(
        dataset_path=f"datasets/support-sft/{digest[:16]}/train.jsonl",
        dataset_format="benchmax-sft-v1",
        content_digest=digest,
        row_count=2,
        eval_digest=None,
        eval_row_count=None,
    )
    assert (storage.root / assets.dataset_path).read_bytes() == train.to_jsonl_bytes()


def test_held_out_rows_are_part_of_the_identity(storage, train, held_out):
    alone = upload_sft_assets(dataset=train, run_name="r", storage=storage)
    assets = upload_sft_assets(dataset=train, eval_dataset=held_out, run_name="r", storage=storage)
    eval_digest = hashlib.sha256(held_out.to_jsonl_bytes()).hexdigest()
    assert (assets.eval_digest, assets.eval_row_count) == (eval_digest, 1)
    assert assets.content_digest == alone.content_digest
    prefix = sft_assets_digest(alone.content_digest, eval_digest)[:16]
    assert assets.dataset_path == f"datasets/r/{prefix}/train.jsonl"
    folder = storage.root / "datasets" / "r" / prefix
    assert {path.name for path in folder.iterdir()} == {"train.jsonl", "eval.jsonl"}
    assert (folder / "eval.jsonl").read_bytes() == held_out.to_jsonl_bytes()


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "../x", "a b", "ä", "a\n", "a\\b", "x" * 201, None, 3]
)
def test_a_name_that_is_no_part_of_a_path_uploads_nothing(storage, train, name):
    with pytest.raises(ValueError, match="run_name must be"):
        upload_sft_assets(dataset=train, run_name=name, storage=storage)
    assert not storage.root.exists()


def test_names_of_letters_digits_dots_lines_and_dashes_are_fine(storage, train):
    for name in ("a", "A-1_b.c", "...", "x" * 200):
        assets = upload_sft_assets(dataset=train, run_name=name, storage=storage)
        assert assets.dataset_path.split("/")[1] == name


def test_what_is_no_dataset_uploads_nothing(storage, train):
    with pytest.raises(TypeError, match=r"dataset must be an SftDataset .* not list"):
        upload_sft_assets(dataset=ROWS, run_name="r", storage=storage)
    with pytest.raises(TypeError, match=r"eval_dataset must be an SftDataset .* not str"):
        upload_sft_assets(dataset=train, eval_dataset="eval.jsonl", run_name="r", storage=storage)
    assert not storage.root.exists()


def test_2048_held_out_rows_are_the_most(storage, train):
    row = HELD_OUT[0]
    most = SftDataset.from_rows([row] * 2048)
    assert (
        upload_sft_assets(dataset=train, eval_dataset=most, run_name="r", storage=storage).eval_row_count
        == 2048
    )
    more = SftDataset.from_rows([row] * 2049)
    with pytest.raises(ValueError, match="2,049 rows, but at most 2,048"):
        upload_sft_assets(dataset=train, eval_dataset=more, run_name="more", storage=storage)
    assert not (storage.root / "datasets" / "more").exists()


def test_a_launch_is_exactly_this_body(storage, train):
    assets = upload_sft_assets(dataset=train, run_name="support-sft", storage=storage)
    assert launch(assets) == {
        "name": "support-sft",
        "dataset": {
            "format": "benchmax-sft-v1",
            "path": assets.dataset_path,
            "digest": assets.content_digest,
            "rows": 2,
        },
        "args": DEFAULTS,
    }


def test_a_launch_with_model_and_held_out_rows_says_so(storage, train, held_out):
    assets = upload_sft_assets(dataset=train, eval_dataset=held_out, run_name="r", storage=storage)
    config = SftTrainingConfig(num_epochs=3, model="Qwen/Qwen3.5-4B", eval_interval=5)
    body = launch(assets, config=config)
    assert set(body) == {"name", "dataset", "args", "model", "eval"}
    assert body["args"] == {**DEFAULTS, "num_epochs": 3, "eval_interval": 5}
    assert body["model"] == "Qwen/Qwen3.5-4B"
    assert body["eval"] == {"rows": 1, "digest": assets.eval_digest}


def test_wrong_arguments_of_a_launch_ask_nobody(storage, train):
    transport = RecordingTransport()
    client = TrainerClient(transport=transport)
    assets = upload_sft_assets(dataset=train, run_name="r", storage=storage)
    with pytest.raises(TypeError, match="assets must be what upload_sft_assets returned, not str"):
        client.launch_sft_run(assets=assets.dataset_path, name="r")
    with pytest.raises(TypeError, match="config must be an SftTrainingConfig, not dict"):
        client.launch_sft_run(assets=assets, name="r", config={"seed": 1})
    with pytest.raises(ValueError, match="eval_interval is set, but the assets have no held-out rows"):
        client.launch_sft_run(assets=assets, name="r", config=SftTrainingConfig(eval_interval=5))
    for name in ("", "  ", None, 3, "a\nb"):
        with pytest.raises(ValueError, match="name must be"):
            client.launch_sft_run(assets=assets, name=name)
    assert transport.asked == []


def test_a_client_passes_on_what_it_is_asked():
    transport = RecordingTransport()
    client = TrainerClient(transport=transport)
    assert client.list_runs() == [{"id": "run-1"}]
    assert client.get_run("run-1", include_config=True)["status"] == "running"
    assert client.get_run_details("run-1")["latestStep"] == 3
    assert client.get_run_events("run-1") == [{"id": 1, "kind": "started"}]
    assert client.get_run_scalars("run-1", "train") == {"train/loss": [{"step": 1, "value": 2.0}]}
    assert client.cancel_run("run-1")["message"] == "run run-1 was asked to stop"
    assert transport.asked == [("list", False), ("get", "run-1", True), ("scalars", "run-1", "train")]


def test_a_client_of_another_server_is_refused_and_a_key_is_not_needed():
    with pytest.raises(ValueError, match=r"'https://api.example.com'.* trains on this machine"):
        TrainerClient(base_url="https://api.example.com")
    TrainerClient("some key", transport=RecordingTransport()).close()


def test_errors_have_a_status_and_one_root():
    error = JobLaunchError("no", 403, hint="ask")
    assert isinstance(error, TrainerError)
    assert issubclass(AuthenticationError, TrainerError)
    assert not issubclass(AuthenticationError, JobLaunchError)
    assert (error.status_code, error.hint, str(error)) == (403, "ask", "no (hint: ask)")
    assert (str(TrainerError("no")), TrainerError("no").status_code) == ("no", None)


def test_a_session_needs_no_account(monkeypatch, tmp_path):
    for name in ("ACT_AS_TOKEN_PATH", "CASTFORM_AUTH_TOKEN", "CASTFORM_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    assert ensure_session() is None
    assert ensure_session(interactive=False) is None
    assert platform_bearer() is None
    monkeypatch.setenv("CASTFORM_API_KEY", "key")
    assert platform_bearer() == "key"
    monkeypatch.setenv("CASTFORM_AUTH_TOKEN", " token\n")
    assert platform_bearer() == "token"
    (tmp_path / "acting").write_text("other\n", encoding="utf-8")
    monkeypatch.setenv("ACT_AS_TOKEN_PATH", str(tmp_path / "acting"))
    assert platform_bearer() == "other"


def test_importing_the_sdk_is_cheap():
    code = "import sys, castform.platform\nprint(' '.join({name.partition('.')[0] for name in sys.modules}))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    heavy = {
        "torch",
        "transformers",
        "sqlalchemy",
        "pydantic",
        "openai",
        "httpx",
        "asyncio",
        "benchmax",
        "rich",
    }
    assert set(done.stdout.split()) & heavy == set()
