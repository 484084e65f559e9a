"""CASTFORM_HOME as a path and as text, which are the same folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from castform.home import castform_home, castform_home_text


@pytest.mark.parametrize(
    ("variable", "expected"),
    [
        (None, "{place}/user/.castform"),
        ("", "{place}/user/.castform"),
        ("/srv/castform", "/srv/castform"),
        ("~", "{place}/user"),
        ("~/data", "{place}/user/data"),
        ("data", "{place}/data"),
        ("./data/", "{place}/data"),
        ("/srv//castform/", "/srv/castform"),
        ("/srv/link/../castform", "/srv/link/../castform"),
    ],
)
def test_the_home_as_text_is_the_path(monkeypatch, tmp_path, variable, expected):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    if variable is None:
        monkeypatch.delenv("CASTFORM_HOME", raising=False)
    else:
        monkeypatch.setenv("CASTFORM_HOME", variable)
    assert castform_home() == Path(expected.format(place=tmp_path))
    assert castform_home_text() == expected.format(place=tmp_path) == str(castform_home())


def test_a_home_of_nobody_is_refused_both_ways(monkeypatch):
    monkeypatch.setenv("CASTFORM_HOME", "~nosuchuser/castform")
    for function in (castform_home, castform_home_text):
        with pytest.raises(RuntimeError, match="home directory"):
            function()
