"""A model's folder and adapter are kept as absolute paths, so that a run is resumed from anywhere."""

from __future__ import annotations

import pytest

from castform.config import load_config
from castform.sft.config import load_sft_config


@pytest.mark.parametrize("load", [load_config, load_sft_config])
def test_a_model_folder_named_from_here_becomes_absolute(tmp_path, monkeypatch, load):
    (tmp_path / "m").mkdir()
    monkeypatch.chdir(tmp_path)
    model = load(model__id="./m", model__adapter="a").model
    assert (model.id, model.adapter) == (str(tmp_path / "m"), tmp_path / "a")


@pytest.mark.parametrize("load", [load_config, load_sft_config])
def test_a_model_folder_of_a_config_file_is_looked_for_beside_it_first(tmp_path, monkeypatch, load):
    (tmp_path / "there" / "m").mkdir(parents=True)
    (tmp_path / "m").mkdir()
    (tmp_path / "there" / "run.toml").write_text('[model]\nid = "m"\nadapter = "a"\n')
    monkeypatch.chdir(tmp_path)
    model = load(tmp_path / "there" / "run.toml").model
    assert (model.id, model.adapter) == (str(tmp_path / "there" / "m"), tmp_path / "there" / "a")


@pytest.mark.parametrize("load", [load_config, load_sft_config])
@pytest.mark.parametrize("id", ["smollm2-135m", "org/name", "x" * 5000, "a\0b", "~nobody-has-this/m"])
def test_an_id_that_is_no_folder_stays_as_it_is(tmp_path, monkeypatch, load, id):
    monkeypatch.chdir(tmp_path)
    assert load(model__id=id).model.id == id


def test_no_id_stays_none_given(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert load_config(model__id="").model.id == ""
