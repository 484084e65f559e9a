"""From a name or a TOML to a harness; every fault at once, with its place."""

from __future__ import annotations

import pytest

from castform.errors import ConfigError, UsageError
from castform.harness import load_harness


def faults_of(make_harness, toml):
    with pytest.raises(ConfigError) as caught:
        make_harness(toml)
    return f"{caught.value}\n{caught.value.hint}"


def test_every_fault_is_named_at_once(make_harness):
    text = faults_of(
        make_harness,
        """
        [harness]
        command = ["agent", "--key", "{api_key}", "--task", "{instructions}"]
        comand = "x"
        stdin = "{ lone"
        prepare = "echo {api_key}"
        timeout_seconds = -1
        workdir = "{mcp_servers}"
        [harness.env]
        A = "{nonsense}"
        [harness.files]
        "a.json" = "{"
        "b.json" = '{"x": "{unknown_thing}"}'
        "c.txt" = { content = { a = 1 } }
        "d.json" = '{"x": "tools: {mcp_servers}"}'
        [[harness.status]]
        status = "finished"
        output = "("
        [[harness.status]]
        status = "done"
        """,
    )
    for expected in (
        "14 wrong settings of the harness",
        "harness.command[2]: {api_key} would be seen by every process",
        "command[4]: unknown placeholder {instructions}; did you mean {instruction}?",
        "harness.comand: unknown key; did you mean 'command'?",
        "stdin: a lone '{' at character 0; literal braces are doubled: {{",
        "prepare: {api_key} would be seen",
        "harness.timeout_seconds: must be more than 0 seconds",
        "workdir: {mcp_servers} is a table",
        "env.A: unknown placeholder {nonsense}; literal braces are doubled",
        'files."a.json": not valid JSON',
        'files."b.json": unknown placeholder {unknown_thing}',
        'files."c.txt": content is a table, and the format text',
        'files."d.json": {mcp_servers} is a table',
    ):
        assert expected in text
    assert "harness.status.0.output: '(' is no regular expression" in text
    assert "harness.status.1.status" in text


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("[other]\n", "has no [harness]"),
        ("[harness]\ncommand = []\n", "command: must be"),
        ('[harness]\ncommand = " "\n', "command: must be"),
        ("[harness]\ncommand = 3\n", "command: must be"),
        ('[harness]\nenv = {}\nname = "x"\n', "harness.command: is required"),
        ('[harness]\ncommand = "x"\nname = "a/b"\n', "'a/b' is no name"),
        ('[harness]\nid = "terminus-lite"\ncommand = "x"\n', "beside id stands args alone"),
        ('[harness]\nid = "terminus-lite"\nargs = { max_turns = 0 }\n', "max_turns = 0"),
        ('[harness]\ncommand = "x"\nstatus = [{ status = "done" }]\n', "harness.status.0.status"),
        ('[harness]\ncommand = "x"\nshell = "fish"\n', "'fish' is no shell that values can be quoted for"),
        (
            '[harness]\ncommand = ["fish", "-c", "x {model}"]\n',
            "command[2]: {model} cannot be put there: fish",
        ),
        ('[harness]\ncommand = "x"\nuser = "{home}"\n', "harness.user: '{home}' is no user"),
        ('[harness]\ncommand = "a\\u0000b"\n', "harness.command: holds a zero byte"),
        ('[harness]\ncommand = "x"\nenv = { X = "\\u0000" }\n', "harness.env: holds a zero byte"),
        ('[harness]\ncommand = "x"\nenv = { "A=B" = "y" }\n', "harness.env: 'A=B' is no name of a variable"),
        ('[harness]\ncommand = "x"\nenv = { "" = "y" }\n', "harness.env: '' is no name of a variable"),
        ('[harness]\ncommand = "x"\nfiles = { "a\\u0000" = "y" }\n', "harness.files: holds a zero byte"),
        ('[harness]\ncommand = "x"\nfiles = { "" = "y" }\n', "harness.files: '' is no file's path"),
        ('[harness]\ncommand = "x"\nfiles = { "a/" = "y" }\n', "harness.files: 'a/' is no file's path"),
        (
            '[harness]\ncommand = "x"\nfiles.x = { content = "y", mode = 999999 }\n',
            "harness.files.x.mode: mode is 999999, which is no file's mode",
        ),
        ('[harness]\ncommand = "x"\nupload = { "x" = "my-agent.toml" }\n', "'x' is not an absolute path"),
        ('[harness]\ncommand = "x"\nupload = { "/x" = "nowhere" }\n', "harness.upload names nowhere"),
        ('[harness]\ncommand = "x"\nworkdir = "rel"\n', "harness.workdir: 'rel' is not an absolute path"),
        ("[harness]\nid = 3\n", "harness.id is 3, not a harness's name"),
        ("[harness]\ncommand = 'x'\ntimeout_seconds = true\n", "must be a number, not true or false"),
    ],
)
def test_a_wrong_file_says_what_stands_there(make_harness, toml, message):
    assert message in faults_of(make_harness, toml)


def test_options_replace_keys_of_the_file(make_harness):
    harness = make_harness('[harness]\ncommand = "x"\nversion = "1"\n', version="2", timeout_seconds=5.0)
    assert harness.version == "2" and harness.section.timeout_seconds == 5.0 and harness.name == "my-agent"


def test_a_file_names_another_harness_with_its_options(make_harness):
    toml = '[harness]\nid = "terminus-lite"\nargs = { max_turns = 3 }\n'
    assert make_harness(toml).options.max_turns == 3
    assert make_harness(toml, max_turns=4).options.max_turns == 4


def test_shell_variables_need_no_doubled_braces(make_harness):
    make_harness('[harness]\ncommand = "echo ${HOME} ${X:-y} {model}"\n')
    make_harness('[harness]\ncommand = ["bash", "-lc", "echo ${HOME} {model}"]\n')
    assert "unknown placeholder {HOME}" in faults_of(
        make_harness, '[harness]\ncommand = ["echo", "${HOME}"]\n'
    )


@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        ("terminus-light", "no harness called 'terminus-light'", "did you mean 'terminus-lite'?"),
        ("./nowhere.toml", "nowhere.toml does not exist", "a TOML with [harness]"),
        ("./nowhere", "is not a TOML file", "a name, plugin/name or a .toml file"),
        ("arith", "plugin 'arith' has no harness", "castform plugins arith"),
    ],
)
def test_a_name_that_leads_nowhere_says_what_there_is(name, message, hint):
    with pytest.raises(UsageError) as caught:
        load_harness(name)
    assert message in str(caught.value) and hint in str(caught.value.hint)


def test_a_wrong_option_is_an_error_of_the_config():
    with pytest.raises(ConfigError, match="max_turn: unknown argument"):
        load_harness("terminus-lite", max_turn=3)
