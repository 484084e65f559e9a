from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from castform.config import ModelSection
from castform.errors import MissingError, UsageError
from castform_trainer.models import load_causal_lm, load_tokenizer, open_model
from castform_trainer.testing import make_tiny_model


def test_a_folder_a_pulled_name_and_a_user_path_open_the_same_model(
    tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CASTFORM_HOME", str(tmp_path))
    pulled = tmp_path / "models" / "tiny-one"
    shutil.copytree(tiny_folder, pulled)
    by_name = open_model(ModelSection(id="tiny-one", device="cpu", dtype="float32"))
    by_path = open_model(ModelSection(id=str(pulled), device="cpu", dtype="float32"))
    assert by_name == by_path
    assert (by_name.path, by_name.name, by_name.dtype, by_name.device) == (
        pulled,
        "tiny-one",
        "float32",
        "cpu",
    )


@pytest.mark.parametrize(
    ("lost", "message"),
    [
        ("config.json", "is not a model folder"),
        ("model.safetensors", "has no weights"),
        ("tokenizer.json", "has no tokenizer"),
        ("chat_template.jinja", "has no chat template"),
    ],
)
def test_a_folder_with_a_part_missing_names_the_part(
    tiny_folder: Path, tmp_path: Path, lost: str, message: str
) -> None:
    folder = shutil.copytree(tiny_folder, tmp_path / "model")
    (folder / lost).unlink()
    with pytest.raises(UsageError, match=message):
        open_model(ModelSection(id=str(folder)))


def test_damaged_files_are_named(tiny_folder: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(tiny_folder, tmp_path / "model")
    (folder / "tokenizer.json").write_text("{")
    (folder / "config.json").write_text(json.dumps({"model_type": "nonesuch"}))
    with pytest.raises(UsageError, match="tokenizer"):
        load_tokenizer(folder)
    with pytest.raises(UsageError, match="model in"):
        load_causal_lm(folder, dtype="float32", device="cpu")
    (folder / "config.json").write_text("{")
    with pytest.raises(UsageError, match="not valid JSON"):
        open_model(ModelSection(id=str(folder)))


def test_an_unknown_name_is_missing_and_a_near_one_is_suggested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CASTFORM_HOME", str(tmp_path))
    with pytest.raises(MissingError) as near:
        open_model(ModelSection(id="smollm2-135"))
    assert "did you mean 'smollm2-135m'?" in str(near.value.hint)
    with pytest.raises(MissingError) as known:
        open_model(ModelSection(id="smollm2-135m"))
    assert "castform model pull smollm2-135m" in str(known.value.hint)
    with pytest.raises(UsageError, match="no model given"):
        open_model(ModelSection())


def test_a_hub_id_without_the_hub_is_missing_with_a_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(MissingError) as error:
        open_model(ModelSection(id="someone/no-such-model"))
    assert "castform model pull" in str(error.value.hint)


def test_a_device_that_is_not_there_or_not_one_is_refused(tiny_folder: Path) -> None:
    with pytest.raises(UsageError, match="not a device"):
        open_model(ModelSection(id=str(tiny_folder), device="gpu-1"))


def test_tiny_models_are_the_same_bytes_for_the_same_arguments(tmp_path: Path) -> None:
    one = make_tiny_model(tmp_path / "a", "qwen3", seed=4) / "model.safetensors"
    two = make_tiny_model(tmp_path / "b", "qwen3", seed=4) / "model.safetensors"
    other = make_tiny_model(tmp_path / "c", "qwen3", seed=5) / "model.safetensors"
    assert one.read_bytes() == two.read_bytes() != other.read_bytes()
