"""Laws of templates: no value changes what stands around it."""

from __future__ import annotations

import json
import shlex
import subprocess
import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from castform.harness.documents import write_content, write_toml
from castform.harness.template import TemplateError, list_placeholders, render, render_shell, variable_name

LAW = settings(max_examples=40, deadline=None)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


@LAW
@given(TEXTS)
def test_a_text_with_doubled_braces_is_itself(text):
    assert render(text.replace("{", "{{").replace("}", "}}"), {}) == text


@LAW
@given(TEXTS)
def test_no_value_breaks_out_of_a_json_or_toml_file(value):
    values = {"instruction": value}
    written = write_content('{"a": {"b": "x{instruction}"}, "c": 1}', "json", values)
    assert json.loads(written) == {"a": {"b": f"x{value}"}, "c": 1}
    written = write_content('c = 1\n[a]\nb = ["{instruction}"]\n', "toml", values)
    assert tomllib.loads(written.decode()) == {"c": 1, "a": {"b": [value]}}


@LAW
@given(TEXTS)
def test_a_value_in_a_shell_file_is_one_word(value):
    written = write_content("name={instruction} end", "shell", {"instruction": value}).decode()
    assert shlex.split(written) == [f"name={value}", "end"]


PLAIN = st.one_of(st.booleans(), st.integers(-(2**53), 2**53), st.floats(allow_nan=False), TEXTS)
TREES = st.dictionaries(
    TEXTS,
    st.recursive(PLAIN, lambda x: st.lists(x, max_size=3) | st.dictionaries(TEXTS, x, max_size=3)),
    max_size=4,
)


@LAW
@given(TREES)
def test_plain_data_comes_back_from_toml(data):
    assert tomllib.loads(write_toml(data)) == data


@settings(max_examples=15, deadline=None)
@given(
    TEXTS.filter(lambda t: "\0" not in t),
    st.sampled_from(["{model}", '"{model}"', "'{model}'", "\"a\"'b'{model}"]),
)
def test_the_shell_gives_back_every_value(value, place):
    script, names = render_shell(f"printf %s {place}")
    assert names == {"model"} and (
        not value.strip() or len(value) < 3 or value not in script or value in place
    )
    done = subprocess.run(
        ["sh", "-c", script], env={variable_name("model"): value}, capture_output=True, check=True
    )
    assert done.stdout.decode() == ("ab" if "a" in place else "") + value


@pytest.mark.parametrize("text", ["{", "}", "a {b", "{}", "{ model }", "{Model}", "{model"])
def test_odd_braces_are_errors(text):
    with pytest.raises(TemplateError):
        list_placeholders(text)
