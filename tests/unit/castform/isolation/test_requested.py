"""What can be asked for, and what the answer to a wrong request is."""

from __future__ import annotations

import pytest

from castform.errors import UsageError
from castform.isolation.requested import read_requested


def write_project(folder, name="castform-env-x"):
    folder.mkdir()
    (folder / "pyproject.toml").write_text(f'[project]\nname = "{name}"\n')
    (folder / "x.py").write_text("one\n")
    return folder


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("castform-env-x", "castform-env-x"),
        ("Castform_Env.X[extra]>=1,<2", "castform-env-x"),
        ("castform-env-x @ https://example.org/castform_env_x-1-py3-none-any.whl", "castform-env-x"),
    ],
)
def test_a_requirement_is_its_distribution(text, name):
    found = read_requested(text)
    assert (found.text, found.distribution, found.path, found.is_folder) == (text, name, None, False)


def test_a_wheel_and_a_source_archive_are_named_by_their_files(tmp_path):
    for file in ("castform_env_x-1.2-py3-none-any.whl", "castform_env_x-1.2.tar.gz"):
        (tmp_path / file).write_bytes(b"content")
        found = read_requested(str(tmp_path / file))
        assert (found.distribution, found.path, found.is_folder) == ("castform-env-x", tmp_path / file, False)
        assert found.content.startswith("ed7002b439e9ac84")  # sha256 of b"content"


def test_a_folder_changes_with_its_files_and_not_with_what_was_built(tmp_path):
    folder = write_project(tmp_path / "x")
    first = read_requested(str(folder))
    assert (first.distribution, first.is_folder) == ("castform-env-x", True)
    for built in ("build", "dist", "__pycache__", ".git"):
        (folder / built).mkdir()
        (folder / built / "file").write_text("built")
    assert read_requested(str(folder)).content == first.content
    (folder / "x.py").write_text("two\n")
    assert read_requested(str(folder)).content != first.content


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("not a requirement", "is not a requirement"),
        ("", "is not a requirement"),
        ("./nowhere", "does not exist"),
        ("nowhere-1-py3-none-any.whl", "does not exist"),
        ("castform-env-x @ git+https://example.org/x", "is a repository, which has no hash"),
        ("Castform>=0.1", "is castform itself"),
    ],
)
def test_what_is_no_request_is_refused(text, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=message):
        read_requested(text)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "has no pyproject.toml"),
        ("[project]\n", "names no"),
        ("project = 1\n", "names no"),
        ("[", "not valid TOML"),
    ],
)
def test_a_folder_without_a_project_is_refused(content, message, tmp_path):
    if content is not None:
        (tmp_path / "pyproject.toml").write_text(content)
    with pytest.raises(UsageError, match=message):
        read_requested(str(tmp_path))


def test_a_file_that_is_no_wheel_is_refused(tmp_path):
    (tmp_path / "thing.whl").write_bytes(b"")
    with pytest.raises(UsageError, match="is not a wheel's name"):
        read_requested(str(tmp_path / "thing.whl"))


def test_a_bare_address_is_told_with_the_name_that_it_needs():
    with pytest.raises(UsageError) as caught:
        read_requested("https://example.org/castform_env_x-1.0-py3-none-any.whl")
    assert "is an address without a name" in str(caught.value)
    assert "'castform-env-x @ https://example.org/castform_env_x-1.0-py3-none-any.whl'" in caught.value.hint
