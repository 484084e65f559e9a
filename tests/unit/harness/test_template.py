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
from castform.harness.scripts import find_script, find_unsafe_script
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


NASTY = 'it\'s "q" $(echo bad) `echo bad`  two  \\ * {x} \\\nEOF\n#c'


@pytest.mark.parametrize(
    "script",
    [
        "# don't\nprintf %s {model}",
        "cat >/dev/null <<'A'\nit's\nA\nprintf %s '{model}'",
        "x=$((1<<2)); : ${x#it} a#b\\'; printf %s {model}",
        'printf %s "$(printf "%s" "{model}")"',
        "printf %s \"$(printf %s '{model}')\"",
        'f() {{ printf %s "${1}"; }}; (f {model})',
    ],
    ids=["comment", "here-document", "arithmetic", "substitution", "single in substitution", "function"],
)
def test_quotes_of_a_script_are_followed_as_the_shell_does(script):
    written, names = render_shell(script)
    env = {variable_name("model"): NASTY} if names else {}
    for text, variables in ((written, env), (write_content(script, "shell", {"model": NASTY}).decode(), {})):
        done = subprocess.run(["sh", "-c", text], env=variables, capture_output=True, check=True)
        assert done.stdout.decode() == NASTY


@pytest.mark.parametrize(
    "script", ["cat <<EOF\n{model}\nEOF", "cat <<-'A B'\n{model}\nA B", "x=`cat {model}`"]
)
def test_a_place_where_no_value_is_safe_is_refused(script):
    with pytest.raises(TemplateError, match="stands in"):
        list_placeholders(script, shell=True)


@pytest.mark.parametrize(
    ("command", "place"),
    [
        (["bash", "-lc", "x"], 2),
        (["env", "A=1", "bash", "-o", "pipefail", "-ec", "x"], 6),
        (["timeout", "9", "/bin/busybox", "sh", "-c", "x"], 5),
        (["bash", "run.sh", "-c", "x"], None),
        (["sh", "/opt/agent.sh", "-config", "x"], None),
        (["python", "-c", "x"], None),
        (["bash", "-c"], None),
        (["su", "agent", "-c", "x"], 3),
        (["su", "--command", "x", "agent"], 2),
        (["runuser", "agent", "-s", "/bin/sh", "-c", "x"], 5),
        (["runuser", "-u", "agent", "--", "bash", "-lc", "x"], 6),
        (["runuser", "-u", "agent", "--", "python", "-c", "x"], None),
        (["script", "-q", "-O", "log", "-ec", "x"], 5),
        (["script", "log", "-c", "x"], None),
    ],
)
def test_the_script_of_a_command_is_what_its_shell_reads(command, place):
    assert find_script(command) == place


@pytest.mark.parametrize(
    ("command", "place", "why"),
    [
        (["fish", "-c", "x"], 2, "quotes its own way"),
        (["su", "-s", "/usr/bin/fish", "agent", "-c", "x"], 5, "quotes its own way"),
        (["su", "-", "agent", "-c", "x"], 4, "drops the variables"),
        (["runuser", "-lc", "x"], 2, "drops the variables"),
        (["su", "agent", "--command=x"], 2, "an argument of its own"),
        (["script", "-q", "-cx"], 2, "an argument of its own"),
    ],
)
def test_a_script_that_no_value_can_be_put_into_is_found(command, place, why):
    found = find_unsafe_script(command)
    assert found is not None and found[0] == place and why in found[1]


@pytest.mark.parametrize(
    "command",
    [["su", "agent", "-c", "x"], ["script", "-qec", "x"], ["runuser", "-u", "a", "--", "agent", "-config"]],
)
def test_other_scripts_are_safe(command):
    assert find_unsafe_script(command) is None


@pytest.mark.parametrize("text", ["{", "}", "a {b", "{}", "{ model }", "{Model}", "{model"])
def test_odd_braces_are_errors(text):
    with pytest.raises(TemplateError):
        list_placeholders(text)
