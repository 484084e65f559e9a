"""What a new plugin may be called, and what follows from it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packaging.utils import canonicalize_name

from castform.authoring.names import MOST_CHARACTERS, make_plugin_names
from castform.errors import UsageError
from castform.plugins.names import is_name, normalize_name


def refused(name: str, installed: tuple[str, ...] = ()) -> UsageError:
    with pytest.raises(UsageError) as caught:
        make_plugin_names(name, installed=installed)
    assert caught.value.exit_code == 2 and repr(name) in str(caught.value)
    return caught.value


def test_the_other_names_follow_from_the_plugins() -> None:
    names = make_plugin_names("unit-price2")
    assert (names.plugin, names.distribution, names.package) == (
        "unit-price2",
        "castform-env-unit-price2",
        "castform_env_unit_price2",
    )


@settings(deadline=None, max_examples=100)
@given(st.from_regex(r"[a-z][a-z0-9]{0,8}(-[a-z0-9]{1,8}){0,3}", fullmatch=True).filter(lambda n: len(n) > 8))
def test_a_name_that_is_taken_is_normal_everywhere(name: str) -> None:
    names = make_plugin_names(name)
    assert names.package.isidentifier()
    assert canonicalize_name(names.distribution) == names.distribution
    assert is_name(name) and normalize_name(name) == name


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("My_Task", "my-task"),
        ("myTask", "my-task"),
        ("my--task", "my-task"),
        ("-my-task-", "my-task"),
        ("my task!", "my-task"),
        ("castform-env-math2", "math2"),
        ("a" * (MOST_CHARACTERS + 1), "a" * MOST_CHARACTERS),
    ],
)
def test_a_name_in_another_form_is_refused_with_the_one_that_is_meant(name: str, meant: str) -> None:
    assert refused(name).hint == f"did you mean {meant!r}?"
    assert make_plugin_names(meant).plugin == meant


@pytest.mark.parametrize("name", ["", "7-seas", "-", "...", "été" * 20, "../etc"])
def test_a_hint_is_a_name_that_would_do_or_there_is_none(name: str) -> None:
    hint = refused(name).hint
    if hint is not None:
        make_plugin_names(hint.removeprefix("did you mean ").strip("?").strip("'"))


@pytest.mark.parametrize("name", ["import", "class", "castform", "benchmax", "json", "con", "tests"])
def test_a_word_with_a_meaning_is_refused(name: str) -> None:
    assert refused(name).hint == f"did you mean '{name}-task'?"


def test_the_longest_name_is_taken() -> None:
    assert make_plugin_names("a" * MOST_CHARACTERS).plugin == "a" * MOST_CHARACTERS


def test_the_name_of_an_installed_plugin_is_refused_in_any_spelling() -> None:
    error = refused("unit-price", ("arith", "Unit_Price"))
    assert "is installed" in str(error) and error.hint is not None and "'arith', 'unit-price'" in error.hint
    assert make_plugin_names("unit-prices", installed=["unit-price"]).plugin == "unit-prices"
