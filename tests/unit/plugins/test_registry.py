"""Cases D1 and D3, and the rules of names."""

from __future__ import annotations

import signal
from collections import namedtuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from castform.errors import UsageError
from castform.plugins import PluginFailure, Registry
from castform.plugins.failure import ContainedError, call_contained
from castform.plugins.ids import parse_id
from castform.plugins.names import normalize_name

EP = namedtuple("EP", "name dist load path", defaults=[""])


def rejected(f):
    try:
        f()
    except Exception as e:  # noqa: BLE001  (the wording of cases.md)
        return str(e)
    raise AssertionError("was accepted")


def test_d1_a_broken_plugin_does_not_take_the_others_down():
    def boom():
        raise ImportError("No module named 'cuda_thing'")

    r = Registry(
        [
            EP("sums", "rl-sums", lambda: "S"),
            EP("broken", "rl-broken", boom),
            EP("words", "rl-words", lambda: "W"),
        ]
    )
    assert r.load("sums") == "S" and r.load("words") == "W"
    assert "broken" in r.errors
    assert "rl-broken" in str(r.errors["broken"]) and "cuda_thing" in str(r.errors["broken"])
    m = rejected(lambda: r.load("broken"))
    assert "cuda_thing" in m and "rl-broken" in m
    m = rejected(lambda: r.load("sumz"))
    assert "sums" in m


def test_d3_an_id_finds_its_plugin_and_nothing_else():
    r = Registry([EP("Word_Guess", "rl-words", lambda: "W")])
    for i in ("word-guess", "word_guess", "WORD.GUESS", "acme/word-guess", "acme/word-guess@1.2"):
        assert r.load(i) == "W", i
    m = rejected(lambda: r.load("calendar"))
    assert "calendar" in m and "AttributeError" not in m and "install" in m.lower()


def test_a_plugin_is_loaded_once_and_only_when_asked_for():
    loads = []
    r = Registry([EP("a", "x", lambda: loads.append("a")), EP("b", "y", lambda: loads.append("b"))])
    r.load("a")
    r.load("A")
    assert loads == ["a"]


def test_the_same_distribution_twice_is_one():
    r = Registry([EP("a", "rl_a", lambda: 1, "/one"), EP("a", "RL-A", lambda: 2, "/two")])
    assert r.load("a") == 1 and r.errors == {}


def test_a_clash_is_an_error_for_every_spelling():
    r = Registry([EP("word-guess", "one", lambda: 1), EP("Word_Guess", "two", lambda: 2)])
    m = rejected(lambda: r.load("word.guess"))
    assert "one" in m and "two" in m


def test_an_installed_plugin_wins_over_an_owner_of_that_name():
    r = Registry([EP("acme", "x", lambda: "acme"), EP("sums", "y", lambda: "sums")])
    assert r.load("acme/sums") == "acme" and r.find("acme/sums").member == "sums"
    assert r.load("someone/sums") == "sums" and r.find("someone/sums").member is None


@pytest.mark.parametrize("id", ["", "/", "a//b", "a/b/c/d", "a b", "a@", "../a", "@1", "a/@2", "-a"])
def test_what_is_no_id_is_said_to_be_none(id):
    with pytest.raises(UsageError, match="is not an id"):
        Registry([EP("a", "x", lambda: 1)]).load(id)


def test_an_unknown_name_says_what_is_installed_when_nothing_is_close():
    r = Registry([EP(f"plugin-{i}", "x", lambda: 1) for i in range(40)])
    m = rejected(lambda: r.load("zzz"))
    assert "plugin-0" in m and "40 in all" in m and len(m) < 300


@pytest.mark.parametrize("stop", [SystemExit(2), KeyboardInterrupt(), GeneratorExit(), BaseException("odd")])
def test_nothing_that_a_plugin_raises_gets_out(stop):
    def load():
        raise stop

    with pytest.raises(PluginFailure):
        Registry([EP("a", "x", load)]).load("a")


def test_the_users_ctrl_c_does_get_out():
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        call_contained(lambda: signal.raise_signal(signal.SIGINT))
    assert signal.getsignal(signal.SIGINT) is before


def test_a_contained_error_keeps_its_cause():
    error = ValueError("no")
    with pytest.raises(ContainedError) as caught:
        call_contained(lambda: (_ for _ in ()).throw(error))
    assert caught.value.cause is error


names = st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,8}[A-Za-z0-9])?", fullmatch=True)


@given(names)
def test_a_normal_form_is_its_own_normal_form(name):
    assert normalize_name(normalize_name(name)) == normalize_name(name)


@given(names, names, names)
def test_every_part_of_a_full_id_comes_back(owner, plugin, member):
    found = parse_id(f"{owner}/{plugin}/{member}@1.0", ())
    assert (found.owner, found.plugin, found.member) == tuple(map(normalize_name, (owner, plugin, member)))
    assert found.version == "1.0"
