"""Settings of a finetuning run: every fault at once, and paths that stay where they point."""

from __future__ import annotations

import pytest

from castform.config import list_settings
from castform.errors import ConfigError
from castform.sft.config import SftConfig, load_sft_config


def test_a_file_then_assignments_then_flags(tmp_path):
    (tmp_path / "sft.toml").write_text(
        '[data]\ntrain = "rows.jsonl"\n[run]\nepochs = 2\nseed = 5\n[batch]\nrows = 4\n'
    )
    config = load_sft_config(
        tmp_path / "sft.toml", ["batch.rows=6", "run.seed=7"], run__seed=8, run__steps=None
    )
    assert (config.run.epochs, config.run.seed, config.batch.rows) == (2, 8, 6)
    assert config.data.train == tmp_path / "rows.jsonl"


def test_paths_of_flags_start_where_the_command_is_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = load_sft_config(data__train="a.jsonl", data__eval=tmp_path / "b.jsonl", model__adapter="lora")
    assert (config.data.train, config.data.eval) == (tmp_path / "a.jsonl", tmp_path / "b.jsonl")
    assert config.model.adapter == tmp_path / "lora"


def test_all_faults_are_one_error():
    with pytest.raises(ConfigError) as caught:
        load_sft_config(None, ["batch.row=3", "run.epochs=0", "optimizer.warmup_ratio=0.6", "x"])
    text = str(caught.value)
    assert text.startswith("4 wrong settings")
    assert "did you mean 'rows'" in text and "run.epochs = 0" in text and "warmup_ratio = 0.6" in text
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("assignments", "words"),
    [
        (["optimizer.min_learning_rate=0.001"], "min_learning_rate is 0.001, not less"),
        (["eval.every=5"], "eval.every is 5, but there is no data.eval"),
        (["run.method=full", "model.adapter=x"], "cannot start from an adapter"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(assignments, words):
    with pytest.raises(ConfigError, match=words):
        load_sft_config(None, assignments)


def test_an_unset_rate_is_ten_times_higher_for_lora_than_for_all_weights():
    assert load_sft_config().learning_rate == 5e-4
    assert load_sft_config(run__method="full").learning_rate == 5e-5
    assert load_sft_config(optimizer__learning_rate=0.3).learning_rate == 0.3


def test_every_setting_is_described():
    settings = {item["name"]: item for item in list_settings(SftConfig)}
    for name in (
        "data.train",
        "batch.packing",
        "run.method",
        "optimizer.decay",
        "eval.every",
        "model.adapter",
    ):
        assert settings[name]["summary"], name
