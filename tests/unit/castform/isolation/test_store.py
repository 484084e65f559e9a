"""Records of isolated plugins: what a listing and a registry make of them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from isolated_records import make_record, make_usable

from castform.cli.main import main
from castform.errors import UsageError
from castform.isolation.install import remove_isolated
from castform.isolation.store import (
    add_isolated,
    hold_lock,
    is_usable,
    list_isolated,
    list_records,
    read_record,
    write_record,
)
from castform.plugins.catalog import CatalogEntry
from castform.plugins.failure import PluginFailure
from castform.plugins.loader import load_registry
from castform.plugins.specs import DatasetSpec, EnvironmentSpec


def entry(name="made-up", distribution="castform-env-made-up", version="9"):
    return CatalogEntry(name, f"{name}.plugin", distribution, version, "", (), "/nowhere/x.dist-info")


def test_a_record_is_read_as_it_was_written(home):
    record = make_record(home)
    write_record(record)
    assert list_records() == [record] == [read_record("Castform_Env.Made-Up")]
    assert sorted(path.name for path in (home / "isolated").iterdir()) == ["castform-env-made-up.json"]


def test_a_moved_home_takes_its_environments_along(home, tmp_path, monkeypatch):
    write_record(make_record(home))
    home.rename(tmp_path / "elsewhere")
    monkeypatch.setenv("CASTFORM_HOME", str(tmp_path / "elsewhere"))
    folder = str(tmp_path / "elsewhere/isolated/castform-env-made-up-0123456789abcdef")
    assert [record.folder for record in list_records()] == [folder]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"format": "castform-isolated-9"}', '{"format": "castform-isolated-1"}']
)
def test_a_record_that_cannot_be_read_hides_no_other(home, text):
    write_record(make_record(home))
    (home / "isolated" / "castform-env-broken.json").write_text(text)
    assert [record.distribution for record in list_records()] == ["castform-env-made-up"]
    assert read_record("castform-env-broken") is None


WRONG = [
    *({"distribution": wrong} for wrong in (None, 5, [], {})),
    {"metadata": 5},
    {"requirements": [5]},
    *({"plugins": wrong} for wrong in (None, "x", ["made-up"], {"made-up": 5}, {"made-up": {"module": "m"}})),
    {"plugins": {"made-up": {"module": "m", "registers": {"environment": None}}}},
]


@pytest.mark.parametrize("changes", WRONG, ids=str)
def test_a_record_with_a_value_of_another_kind_hides_no_other(home, changes):
    write_record(make_record(home))
    write_record(make_record(home, "broken"))
    path = home / "isolated" / "castform-env-broken.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    assert [entry.name for entry in list_isolated()] == ["made-up"]
    path.write_text("[" * 100_000)
    assert [entry.name for entry in list_isolated()] == ["made-up"]


def test_nothing_is_isolated_inside_an_isolated_environment(home, monkeypatch):
    record = make_usable(make_record(home))
    write_record(record)
    assert [found.name for found in list_isolated()] == ["made-up"]
    monkeypatch.setattr(sys, "prefix", record.folder)
    assert list_isolated() == []


def test_the_isolated_one_of_the_same_distribution_is_used(home):
    write_record(make_record(home))
    listing = add_isolated([entry("zero", "castform-env-zero"), entry("Made.Up", "Castform_env.made-up")])
    assert [(e.name, e.version) for e in listing.entries] == [("made-up", "1.2"), ("zero", "9")]
    assert [e.name for e in listing.isolated] == ["made-up"]
    assert [e.version for e in listing.replaced] == ["9"]


def test_one_name_from_two_distributions_is_a_clash_isolated_or_not(home):
    write_record(make_record(home, "arith", distribution="other-arith"))
    failure = load_registry().check("arith")
    assert failure is not None
    assert (failure.stage, failure.distribution) == ("name clash", "castform-env-arith and other-arith")


def test_environments_are_known_and_nothing_is_imported(home):
    write_record(make_usable(make_record(home)))
    plugin = load_registry().load("made-up")
    spec = plugin.find_spec(EnvironmentSpec, None)
    assert (spec.name, spec.summary, spec.tags) == ("one", "The only one", ("single-turn",))
    assert plugin.interpreter is not None
    assert plugin.interpreter.python == Path(make_record(home).folder, "bin", "python")
    assert "castform_env_made_up" not in sys.modules


def test_other_parts_of_an_isolated_plugin_are_refused_by_name(home):
    write_record(make_usable(make_record(home)))
    with pytest.raises(UsageError, match="installed isolated, so its datasets cannot be used") as caught:
        load_registry().load("made-up").find_spec(DatasetSpec, "rows")
    assert caught.value.hint == "install it here instead: castform env install castform-env-made-up"


def test_an_environment_that_is_no_longer_whole_says_how_to_get_it_back(home):
    record = make_usable(make_record(home))
    write_record(record)
    Path(record.python_path()).unlink()
    assert not is_usable(record)
    with pytest.raises(PluginFailure, match="no longer whole") as caught:
        load_registry().load("made-up")
    assert caught.value.hint == "castform env install 'castform-env-made-up==1.2' --isolated"


def test_a_version_range_on_castform_holds_for_isolated_plugins_too(home):
    write_record(make_usable(make_record(home, requirements=("castform>=99",))))
    with pytest.raises(PluginFailure, match="needs castform>=99"):
        load_registry().load("made-up")


def test_removing_leaves_environments_of_other_distributions(home):
    for name in ("made-up", "made-up-more"):
        write_record(make_usable(make_record(home, name)))
    old = make_usable(
        make_record(home, folder=str(home / "isolated" / "castform-env-made-up-ffff456789abcdef"))
    )
    assert remove_isolated("castform-env-made-up") == [
        "castform-env-made-up-0123456789abcdef",
        Path(old.folder).name,
    ]
    assert [record.distribution for record in list_records()] == ["castform-env-made-up-more"]
    assert is_usable(make_record(home, "made-up-more"))
    assert remove_isolated("castform-env-made-up") == []


def test_the_lock_of_a_distribution_is_exclusive(home):
    import fcntl

    with hold_lock("castform-env-made-up"):
        with (home / "isolated" / "castform-env-made-up.lock").open("w") as other:
            with pytest.raises(BlockingIOError):
                fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with hold_lock("castform-env-other"):  # another one's is free
                pass


def test_listing_marks_isolated_plugins_and_says_which_one_is_used(home, capsys):
    write_record(make_record(home))
    write_record(make_record(home, "arith", version="7.0"))
    assert main(["env", "list"]) == 0
    out, err = capsys.readouterr()
    rows = {line.split()[0]: line for line in out.splitlines()}
    assert "1.2 (isolated)" in rows["made-up"]
    assert "7.0 (isolated)" in rows["arith"]
    assert "isolated" not in rows["lookup"]
    assert "arith 0.1.0 of castform-env-arith is installed here too; the isolated one is used" in err
    assert main(["env", "list", "--json"]) == 0
    marked = {row["plugin"]: row["isolated"] for row in json.loads(capsys.readouterr().out)}
    assert marked["arith"] and marked["made-up"] and not marked["lookup"]


def test_plugins_lists_isolated_ones_too(home, capsys):
    write_record(make_record(home))
    assert main(["plugins", "--json"]) == 0
    marked = {row["plugin"]: row["isolated"] for row in json.loads(capsys.readouterr().out)}
    assert marked["made-up"] and not marked["arith"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["./nowhere", "--isolated"], "./nowhere does not exist"),
        (["castform-env-x", "--isolated", "--offline"], "--offline needs --wheels DIR"),
        (["castform-env-x", "--with", "y"], "--with is for --isolated"),
        (["castform-env-x", "--upgrade"], "--upgrade is for --isolated"),
        (["castform-env-x", "--save-wheels", "w"], "--save-wheels is for --isolated"),
    ],
)
def test_env_install_refuses_what_it_cannot_do_before_it_does_anything(home, capsys, words, message):
    assert main(["env", "install", *words]) == 2
    assert message in capsys.readouterr().err
    assert list_records() == []


def test_a_home_that_cannot_be_written_is_told(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").touch()
    monkeypatch.setenv("CASTFORM_HOME", str(tmp_path / "file"))
    assert main(["env", "install", "castform-env-x", "--isolated"]) == 2
    assert "set CASTFORM_HOME to a folder that you can write" in capsys.readouterr().err


def test_a_home_that_no_list_of_paths_can_name_is_told_before_anything_is_built(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("CASTFORM_HOME", str(tmp_path / "a:b"))
    assert main(["env", "install", "castform-env-x", "--isolated"]) == 2
    told = capsys.readouterr().err
    assert "has a ':' in it" in told and "set CASTFORM_HOME to another folder" in told


def test_env_remove_takes_the_plugins_name_and_suggests_a_close_one(home, capsys):
    write_record(make_usable(make_record(home)))
    assert main(["env", "remove", "mad-up"]) == 2
    assert "did you mean 'made-up'?" in capsys.readouterr().err
    assert main(["env", "remove", "made-up", "--json"]) == 0
    captured = capsys.readouterr()
    assert "removed castform-env-made-up 1.2" in captured.err
    [removed] = json.loads(captured.out)
    assert (removed["distribution"], removed["version"]) == ("castform-env-made-up", "1.2")
    assert len(removed["folders"]) == 1
    assert list_records() == []
