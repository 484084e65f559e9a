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


@pytest.mark.parametrize("size", [0, 5, 3000, -1])
def test_weights_that_were_cut_short_are_found_before_they_are_loaded(
    tiny_folder: Path, tmp_path: Path, size: int
) -> None:
    folder = shutil.copytree(tiny_folder, tmp_path / "model")
    weights = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(weights[:size])
    with pytest.raises(UsageError, match="damaged"):
        open_model(ModelSection(id=str(folder)))


def test_an_index_that_names_a_missing_file_is_refused(tiny_folder: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(tiny_folder, tmp_path / "model")
    (folder / "model.safetensors").rename(folder / "model-00001-of-00002.safetensors")
    shards = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": shards}))
    with pytest.raises(UsageError, match="lacks 1 of its 2 weight files, model-00002-of-00002"):
        open_model(ModelSection(id=str(folder)))


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{{ raise_exception('no users here') }}", "no users here"),
        ("{% for m in messages %}{{ m.content }", "unexpected"),
        ("{{ messages[0].nothing.at_all }}", "nothing"),
    ],
)
def test_a_chat_template_that_cannot_write_a_prompt_is_refused(
    tiny_folder: Path, tmp_path: Path, template: str, message: str
) -> None:
    folder = shutil.copytree(tiny_folder, tmp_path / "model")
    (folder / "chat_template.jinja").write_text(template)
    with pytest.raises(UsageError, match=f"cannot write a prompt: .*{message}"):
        load_tokenizer(folder)


def test_a_chat_template_that_insists_on_a_system_message_is_accepted(
    tiny_folder: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(tiny_folder, tmp_path / "model")
    (folder / "chat_template.jinja").write_text(
        "{% if messages[0].role != 'system' %}{{ raise_exception('system first') }}{% endif %}x"
    )
    assert load_tokenizer(folder).chat_template


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
